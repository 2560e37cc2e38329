/**
 * The sink of one MCP stream: what it requests, and how it answers. No I/O.
 *
 * - It requests each collection once. Each response is answered: with its nonce, and the problems of its documents if
 *   there are any (a NACK). Documents without problems are in force at once.
 * - On a new stream it states the versions that it has, if it asks for changes only. Sources of Istio 1.7 ignore these:
 *   such a source begins a stream with a response that is not incremental, and sends all documents as the first
 *   response of each collection, even if that says that it is incremental. Without this rule, what was deleted while
 *   the stream was down would stay.
 * - Sources of Istio 1.7 end a stream that requests a collection that they do not have. The collections of the policy
 *   component are left out then, one by one as they are named, and requested again when the stream is lost.
 */
import { CtlError } from '../../core/errors.ts';
import type { Slices } from '../../core/slices.ts';
import { BY_COLLECTION } from '../../mcp/index.ts';
import { encode, istio } from '../../protobuf/index.ts';
import { WireReader } from '../../protobuf/wire/index.ts';
import { POLICY_KINDS } from '../../resources/index.ts';
import type { ConfigProtocol, Received } from './protocol.ts';
import type { Applied, ReceivedDocuments, ReceivedResource } from './received.ts';
import { addTo, checkedToken, nackMessage, resourceAt, unnamedProblem } from './resources.ts';

const { RequestResources } = istio.mcp.v1alpha1;

export const MCP_PATH = '/istio.mcp.v1alpha1.ResourceSource/EstablishResourceStream';

/** gRPC status codes, as `error_detail` has them. */
const INVALID_ARGUMENT = 3;
const RESOURCE_EXHAUSTED = 8;
const UNIMPLEMENTED = 12;

/** Collections that sources for proxies alone do not have. */
const OPTIONAL: readonly string[] = [...BY_COLLECTION].flatMap(([collection, { kind }]) =>
  POLICY_KINDS.some((each) => each === kind) ? [collection] : [],
);

export interface McpSinkOptions {
  readonly documents: ReceivedDocuments;
  /** Name of this control plane, for the source's logs. */
  readonly node: string;
  /** Whether only changes are requested (CTL_ENABLE_INCREMENTAL_MCP). */
  readonly incremental: boolean;
}

interface Response {
  collection: string;
  nonce: string;
  incremental: boolean;
  readonly resources: ReceivedResource[];
  readonly removed: string[];
}

export class McpSink implements ConfigProtocol {
  readonly path = MCP_PATH;
  readonly #options: McpSinkOptions;
  /** Collections that were answered on this stream. */
  #answered = new Set<string>();
  /** Whether the source begins with all documents, whatever versions it was told. */
  #beginsWithAll: boolean | undefined;
  /** Collections that the source does not have. */
  readonly #absent = new Set<string>();

  constructor(options: McpSinkOptions) {
    this.#options = options;
  }

  get groups(): readonly string[] {
    return [...BY_COLLECTION.keys()].filter((collection) => !this.#absent.has(collection));
  }

  open(): Uint8Array[] {
    this.#answered = new Set();
    this.#beginsWithAll = undefined;
    const { documents, incremental } = this.#options;
    return this.groups.map((collection) => {
      const initialResourceVersions = incremental ? documents.versions(collection) : {};
      return this.#request({ collection, initialResourceVersions });
    });
  }

  *receive(bytes: Buffer): Slices<Received> {
    const response = yield* decodeResponse(bytes, this.#options.documents.maxCount);
    const { collection, nonce } = response;
    if (!BY_COLLECTION.has(collection)) {
      const message = `collection ${collection.slice(0, 256)} was not requested`;
      return {
        group: undefined,
        events: [],
        problem: message,
        replies: [this.#nack(response, UNIMPLEMENTED, message)],
      };
    }
    this.#beginsWithAll ??= !response.incremental;
    const isFirst = !this.#answered.has(collection);
    let applied: Applied;
    try {
      applied = yield* this.#apply(response, !response.incremental || (isFirst && this.#beginsWithAll));
    } catch (error) {
      if (!(error instanceof CtlError)) throw error;
      const { message } = error;
      return {
        group: collection,
        events: [],
        problem: message,
        replies: [this.#nack(response, RESOURCE_EXHAUSTED, message)],
      };
    }
    this.#answered.add(collection);
    const { events, documents } = applied;
    const unnamed = unnamedProblem(response.resources);
    const refused = unnamed === undefined ? applied.refused : [unnamed, ...applied.refused];
    const nack = (more: readonly string[]): Uint8Array[] => [
      this.#nack(response, INVALID_ARGUMENT, nackMessage([...refused, ...more])),
    ];
    const replies = refused.length === 0 ? [this.#request({ collection, responseNonce: nonce })] : nack([]);
    const problem = unnamed === undefined ? {} : { problem: `${collection}: ${unnamed}` };
    return { group: collection, events, documents, replies, nack, ...problem };
  }

  afterEnd({ code, message }: CtlError): string | undefined {
    const named = code !== 'invalid_argument' ? undefined : OPTIONAL.find((each) => message.includes(`"${each}"`));
    if (named !== undefined && !this.#absent.has(named)) {
      this.#absent.add(named);
      return `the source has no collection ${named}, which is not requested until the next reconnection`;
    }
    this.#absent.clear();
    return undefined;
  }

  get awaited(): readonly string[] {
    return [];
  }

  afterSilence(): undefined {}

  #apply({ collection, resources, removed }: Response, isAll: boolean): Slices<Applied> {
    const { documents } = this.#options;
    // One without a name may be any document: nothing that is missing was removed.
    const isComplete = isAll && unnamedProblem(resources) === undefined;
    return isComplete
      ? documents.replace(collection, resources)
      : documents.change(collection, resources, isAll ? [] : removed);
  }

  #nack({ collection, nonce }: Response, code: number, message: string): Uint8Array {
    return this.#request({ collection, responseNonce: nonce, errorDetail: { code, message } });
  }

  #request(fields: istio.mcp.v1alpha1.RequestResources.Input): Uint8Array {
    const { node, incremental } = this.#options;
    return encode(RequestResources, { sinkNode: { id: node }, incremental, ...fields });
  }
}

/** Reads `istio.mcp.v1alpha1.Resources`. Throws CtlError `invalid_argument` for other bytes. */
function* decodeResponse(bytes: Buffer, most: number): Slices<Response> {
  const reader = new WireReader(bytes);
  const response: Response = { collection: '', nonce: '', incremental: false, resources: [], removed: [] };
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field.number === 2) response.collection = reader.text(field);
    else if (field.number === 3) addTo(response.resources, most, () => resourceAt(reader.content(field)));
    else if (field.number === 4) addTo(response.removed, most, () => reader.text(field));
    else if (field.number === 5) response.nonce = checkedToken('nonce', reader.text(field));
    else if (field.number === 6) response.incremental = field.value !== 0;
    yield;
  }
  return response;
}
