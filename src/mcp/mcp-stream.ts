/**
 * One stream of MCP, as the source of documents (`ResourceSource`). No I/O.
 *
 * - Each collection has at most one response without an answer. What changes meanwhile is in the next one.
 * - An answer with the nonce of that response accepts it, or refuses it with `error_detail`; others are stale and
 *   ignored. A refused response is not sent again before something changes. Its documents may be in force at the sink
 *   or not: those that still exist are part of the next response, and those that do not are removed by it.
 * - A request without a nonce begins the collection anew, once the last response has an answer.
 * - Requests that ask for changes only get them against what was accepted, or against the versions that they state,
 *   from the first response on.
 * - Collections that this control plane does not have are empty: sinks of Istio ask for those of Mixer, too.
 */
import { CtlError } from '../core/errors.ts';
import { istio } from '../protobuf/index.ts';
import { encodeFields, type FieldToWrite } from '../protobuf/wire/index.ts';
import type { MeshKind } from '../resources/index.ts';
import { applied, type Differences, differences, refused } from './differences.ts';
import { BY_COLLECTION } from './kinds.ts';
import type { ServedDocuments, ServedKind } from './served-documents.ts';

const { RequestResources } = istio.mcp.v1alpha1;

/** Chunks of one response, to be sent in order. */
export type Response = readonly Uint8Array[];

/** The outcome of a request, for metrics. */
export type Answered = 'first' | 'ack' | 'nack';

interface Pending {
  readonly nonce: string;
  /** Versions by name after an ACK, and after a NACK. */
  readonly accepted: ReadonlyMap<string, string>;
  readonly refused: ReadonlyMap<string, string>;
}

/** How a sink begins a collection. */
interface Beginning {
  readonly incremental: boolean;
  /** The versions that it states, by name. */
  readonly accepted: ReadonlyMap<string, string>;
}

interface Watched {
  incremental: boolean;
  /** Accepted versions by name. */
  accepted: ReadonlyMap<string, string>;
  /** The version of the last response. */
  sent: string | undefined;
  pending: Pending | undefined;
  /** A request that begins the collection anew, while a response has no answer. */
  restart: Beginning | undefined;
}

/** More than Istio has; a stream with more is not one of a sink. */
const MAX_COLLECTIONS = 64;

/** Of the error of a sink. */
const MAX_MESSAGE_CHARS = 1000;

/** How sources that dial a sink begin; there is nothing to answer. */
const TRIGGER = 'trigger';

export class McpStream {
  readonly #served: Pick<ServedDocuments, 'of'>;
  readonly #send: (response: Response) => void;
  readonly #rejected: (message: string) => void;
  readonly #watched = new Map<string, Watched>();
  #nonce = 0;

  /** @param rejected called with the collection and the error of each response that is refused */
  constructor(
    served: Pick<ServedDocuments, 'of'>,
    send: (response: Response) => void,
    rejected: (message: string) => void,
  ) {
    this.#served = served;
    this.#send = send;
    this.#rejected = rejected;
  }

  /** Throws CtlError `invalid_argument` for bytes that are no request, and `resource_exhausted` for too many collections. */
  receive(bytes: Uint8Array): Answered {
    const { collection, responseNonce, errorDetail, incremental, initialResourceVersions } = decode(bytes);
    if (collection === TRIGGER) return 'first';
    const known = this.#watched.get(collection);
    if (known === undefined || responseNonce === '') {
      if (known === undefined && this.#watched.size >= MAX_COLLECTIONS)
        throw new CtlError('resource_exhausted', `more than ${MAX_COLLECTIONS} collections`);
      const accepted = new Map(incremental ? Object.entries(initialResourceVersions) : []);
      const beginning: Beginning = { incremental, accepted };
      if (known?.pending === undefined) this.#begin(collection, beginning);
      else known.restart = beginning;
      return 'first';
    }
    if (known.pending?.nonce === responseNonce) {
      known.accepted = errorDetail === null ? known.pending.accepted : known.pending.refused;
      known.pending = undefined;
      known.incremental = incremental;
      if (known.restart === undefined) this.#respond(collection, known);
      else this.#begin(collection, known.restart);
    }
    if (errorDetail === null) return 'ack';
    this.#rejected(`${collection}: ${errorDetail.message.slice(0, MAX_MESSAGE_CHARS).replaceAll(/\s+/g, ' ')}`);
    return 'nack';
  }

  changed(kinds: ReadonlySet<MeshKind>): void {
    for (const [collection, watched] of this.#watched) {
      const kind = BY_COLLECTION.get(collection);
      if (kind !== undefined && kinds.has(kind.kind)) this.#respond(collection, watched);
    }
  }

  #begin(collection: string, beginning: Beginning): void {
    const watched: Watched = { ...beginning, sent: undefined, pending: undefined, restart: undefined };
    this.#watched.set(collection, watched);
    this.#respond(collection, watched);
  }

  #respond(collection: string, watched: Watched): void {
    const current = this.#served.of(BY_COLLECTION.get(collection));
    // Not yet encoded: `changed` follows.
    if (current === undefined || watched.pending !== undefined || watched.sent === current.version) return;
    const isDelta = watched.incremental;
    const has = isDelta ? watched.accepted : new Map<string, string>();
    const sent = differences(current, has);
    this.#nonce += 1;
    const nonce = String(this.#nonce);
    watched.sent = current.version;
    // A response with all documents says of each name whether it exists.
    const before = isDelta ? has : new Map([...watched.accepted.keys()].map((name) => [name, '']));
    watched.pending = { nonce, accepted: applied(has, sent), refused: refused(before, sent) };
    this.#send(encodeResponse(collection, current, nonce, isDelta, sent));
  }
}

function decode(bytes: Uint8Array): istio.mcp.v1alpha1.RequestResources {
  try {
    return RequestResources.decode(bytes);
  } catch (error) {
    throw new CtlError('invalid_argument', 'the message cannot be read', {}, error);
  }
}

function encodeResponse(
  collection: string,
  { version }: ServedKind,
  nonce: string,
  isDelta: boolean,
  { changed, removed }: Differences,
): Response {
  const fields: FieldToWrite[] = [
    [1, version],
    [2, collection],
    ...removed.map((name): FieldToWrite => [4, name]),
    [5, nonce],
    [6, isDelta ? 1 : 0],
  ];
  return [encodeFields(fields), ...changed.map(({ inMcp }) => inMcp)];
}
