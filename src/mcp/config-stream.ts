/**
 * One stream of configuration over xDS, as its server: types `GROUP/VERSION/KIND`, State of the World or Delta. No I/O.
 *
 * Every type that is asked for is answered, with nothing if this control plane does not have it: clients wait for all
 * of them. The first request of a type is answered whatever its nonce, because clients of Istio send one of their own.
 * Source: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol
 */
import { CtlError } from '../core/errors.ts';
import { encodeFields, type FieldToWrite } from '../protobuf/wire/index.ts';
import type { MeshKind } from '../resources/index.ts';
import { applied, type Differences, differences, refused } from './differences.ts';
import { BY_XDS_TYPE } from './kinds.ts';
import type { Response } from './mcp-stream.ts';
import type { ServedDocuments, ServedKind } from './served-documents.ts';

export interface ConfigRequest {
  readonly typeUrl: string;
  readonly responseNonce: string;
  /** Message of `error_detail`; undefined unless the request is a NACK. */
  readonly nack: string | undefined;
  /** Of the first Delta request of a type: versions by name. */
  readonly initialVersions?: ReadonlyMap<string, string>;
}

interface Pending {
  readonly nonce: string;
  /** Versions by name after an ACK, and after a NACK. */
  readonly accepted: ReadonlyMap<string, string>;
  readonly refused: ReadonlyMap<string, string>;
}

interface Watched {
  accepted: ReadonlyMap<string, string>;
  sent: string | undefined;
  pending: Pending | undefined;
}

/** More than there are kinds and versions. */
const MAX_TYPES = 256;

export class ConfigStream {
  readonly #served: Pick<ServedDocuments, 'of'>;
  readonly #mode: 'sotw' | 'delta';
  readonly #send: (response: Response) => void;
  readonly #watched = new Map<string, Watched>();
  #nonce = 0;

  constructor(served: Pick<ServedDocuments, 'of'>, mode: 'sotw' | 'delta', send: (response: Response) => void) {
    this.#served = served;
    this.#mode = mode;
    this.#send = send;
  }

  /** Throws CtlError `resource_exhausted` for too many types. */
  receive({ typeUrl, responseNonce, nack, initialVersions = new Map() }: ConfigRequest): void {
    const known = this.#watched.get(typeUrl);
    if (known === undefined) {
      if (this.#watched.size >= MAX_TYPES) throw new CtlError('resource_exhausted', `more than ${MAX_TYPES} types`);
      const watched: Watched = { accepted: initialVersions, sent: undefined, pending: undefined };
      this.#watched.set(typeUrl, watched);
      this.#respond(typeUrl, watched);
      return;
    }
    if (known.pending?.nonce !== responseNonce) return;
    known.accepted = nack === undefined ? known.pending.accepted : known.pending.refused;
    known.pending = undefined;
    this.#respond(typeUrl, known);
  }

  changed(kinds: ReadonlySet<MeshKind>): void {
    for (const [typeUrl, watched] of this.#watched) {
      const kind = BY_XDS_TYPE.get(typeUrl);
      if (kind !== undefined && kinds.has(kind.kind)) this.#respond(typeUrl, watched);
    }
  }

  #respond(typeUrl: string, watched: Watched): void {
    const current = this.#served.of(BY_XDS_TYPE.get(typeUrl));
    // Not yet encoded: `changed` follows.
    if (current === undefined || watched.pending !== undefined || watched.sent === current.version) return;
    const has = this.#mode === 'delta' ? watched.accepted : new Map<string, string>();
    const sent = differences(current, has);
    this.#nonce += 1;
    const nonce = String(this.#nonce);
    watched.sent = current.version;
    watched.pending = { nonce, accepted: applied(has, sent), refused: refused(has, sent) };
    this.#send(encodeResponse(this.#mode, typeUrl, current, nonce, sent));
  }
}

function encodeResponse(
  mode: 'sotw' | 'delta',
  typeUrl: string,
  { version }: ServedKind,
  nonce: string,
  { changed, removed }: Differences,
): Response {
  const fields: FieldToWrite[] = [
    [1, version],
    [4, typeUrl],
    [5, nonce],
    // `removed_resources` of Delta; there are none in State of the World.
    ...removed.map((name): FieldToWrite => [6, name]),
  ];
  const resources = changed.map((document) => {
    if (mode === 'sotw') return encodeFields([[2, document.any]]);
    const resource: FieldToWrite[] = [
      [1, document.version],
      [2, document.any],
      [3, document.name],
    ];
    return encodeFields([[2, encodeFields(resource)]]);
  });
  return [encodeFields(fields), ...resources];
}
