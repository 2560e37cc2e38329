/**
 * Virtual hosts as resources of their own. They are made from the pieces of whole route configurations: the message is
 * the same but for its name, by which Envoy knows whose it is, so nothing is built or encoded twice. Source:
 * https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_conn_man/vhds
 */
import type { Memos } from '../../core/memo.ts';
import { encode, envoy } from '../../protobuf/index.ts';
import type { GeneratedResource } from '../types.ts';

const { VirtualHost } = envoy.config.route.v3;
const utf8 = new TextDecoder();

/** Tag of `VirtualHost.name` (1), which every piece has in first place. */
const NAME_TAG = 0x0a;

/**
 * The resource `<route configuration>/<virtual host>` for a piece that `encodeVirtualHost` made. Envoy takes what
 * stands before the last `/` for the configuration's name; virtual hosts are called after host and port, and have none
 * in theirs. The message bears the resource's name as well: it is what Envoy keeps virtual hosts by, and takes them
 * away by when the resource is removed. The same object as long as the piece is the same, so that its version is known,
 * too.
 */
export function discoveredHost(memos: Memos, routes: string, piece: Uint8Array): GeneratedResource {
  const ofPiece = memos
    .weak<Uint8Array, Map<string, GeneratedResource>>('discovered hosts')
    .get(piece, () => new Map());
  let resource = ofPiece.get(routes);
  if (resource === undefined) {
    resource = renamed(routes, piece);
    ofPiece.set(routes, resource);
  }
  return resource;
}

function renamed(routes: string, piece: Uint8Array): GeneratedResource {
  // The piece's own tag is one byte.
  const message = varint(piece, 1).end;
  if (piece[message] !== NAME_TAG) throw new TypeError('a virtual host begins with its name');
  const length = varint(piece, message + 1);
  const rest = piece.subarray(length.end + length.value);
  const name = `${routes}/${utf8.decode(piece.subarray(length.end, length.end + length.value))}`;
  const head = encode(VirtualHost, { name });
  const bytes = new Uint8Array(head.length + rest.length);
  bytes.set(head);
  bytes.set(rest, head.length);
  return { name, bytes, refs: [] };
}

/** The base-128 number at `start`, and where it ends. */
function varint(bytes: Uint8Array, start: number): { readonly value: number; readonly end: number } {
  let [value, scale, end] = [0, 1, start];
  for (;;) {
    const byte = bytes[end++] ?? 0;
    value += (byte & 0x7f) * scale;
    if (byte < 0x80) return { value, end };
    scale *= 128;
  }
}
