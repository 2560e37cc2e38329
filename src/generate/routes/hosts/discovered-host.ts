/**
 * Virtual hosts as separate resources. They are built from the pieces of whole route configurations: the message
 * differs only in its name, which identifies the configuration for Envoy, so nothing is built or encoded twice. Source:
 * https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_conn_man/vhds
 */
import { InternalError } from '../../../core/errors.ts';
import type { Memos } from '../../../core/memo.ts';
import { encode, envoy } from '../../../protobuf/index.ts';
import { VarintDecoder } from '../../../protobuf/wire/index.ts';
import type { GeneratedResource } from '../../types.ts';

const { VirtualHost } = envoy.config.route.v3;
const utf8 = new TextDecoder();
const varint = new VarintDecoder();

/** Tag of `VirtualHost.name` (1), the first field of every piece. */
const NAME_TAG = 0x0a;

/**
 * The resource `<route configuration>/<virtual host>` for a piece of `encodeVirtualHost`. Envoy reads the part before
 * the last `/` as the configuration's name; virtual hosts are named by host and port, without `/`. The message has the
 * resource's name as well: Envoy identifies virtual hosts by it, even when the resource is removed. The same object
 * while the piece is the same, so that its version is known, too.
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
  // The tag of the piece is one byte.
  const message = varint.read(piece, 1, piece.length);
  if (piece[message] !== NAME_TAG) throw new InternalError('a virtual host begins with its name');
  const start = varint.read(piece, message + 1, piece.length);
  const end = start + varint.value;
  const rest = piece.subarray(end);
  const name = `${routes}/${utf8.decode(piece.subarray(start, end))}`;
  const head = encode(VirtualHost, { name });
  const bytes = new Uint8Array(head.length + rest.length);
  bytes.set(head);
  bytes.set(rest, head.length);
  return { name, bytes, refs: [] };
}
