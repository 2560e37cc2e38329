/**
 * A client of configuration over xDS on one stream: State of the World over ADS, with the types `GROUP/VERSION/KIND`
 * and resources of MCP. No I/O.
 *
 * Each type is requested once, for all of its documents, and each response is answered with its nonce. A response with
 * documents that are refused is answered with their problems and the version before (a NACK); the others are in force.
 * A response with resources that cannot be read or have no name removes nothing.
 * Source: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol
 */
import { CtlError } from '../../core/errors.ts';
import type { Slices } from '../../core/slices.ts';
import { BY_XDS_TYPE, RESOURCE_TYPE_URL } from '../../mcp/index.ts';
import { encode, envoy } from '../../protobuf/index.ts';
import { WireReader } from '../../protobuf/wire/index.ts';
import type { Received } from './protocol.ts';
import type { Applied, ReceivedDocuments, ReceivedResource } from './received.ts';
import { addTo, anyAt, checkedToken, nackMessage, readable, resourceAt, unnamedProblem } from './resources.ts';

const { DiscoveryRequest } = envoy.service.discovery.v3;

/** gRPC status codes, as `error_detail` has them. */
export const INVALID_ARGUMENT = 3;

export interface XdsClientOptions {
  readonly documents: ReceivedDocuments;
  /** The id of this control plane: it has the form of a proxy's, which servers parse. */
  readonly node: string;
}

/** The node of requests. */
export function nodeOf(id: string): envoy.config.core.v3.Node.Input {
  return { id, metadata: { fields: { GENERATOR: { stringValue: 'api' } } } };
}

interface Response {
  version: string;
  typeUrl: string;
  nonce: string;
  readonly resources: ReceivedResource[];
  /** Resources of another type. */
  foreign: number;
}

export class XdsClient {
  readonly path = '/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources';
  readonly groups: readonly string[] = [...BY_XDS_TYPE.keys()];
  readonly #options: XdsClientOptions;
  /** Version of the last response that was accepted on this stream, by type. */
  #accepted = new Map<string, string>();

  constructor(options: XdsClientOptions) {
    this.#options = options;
  }

  open(): Uint8Array[] {
    this.#accepted = new Map();
    const node = nodeOf(this.#options.node);
    // With the node in each, because servers differ in which one they read.
    return this.groups.map((typeUrl) => encode(DiscoveryRequest, { node, typeUrl }));
  }

  *receive(bytes: Buffer): Slices<Received> {
    const response = yield* decodeResponse(bytes, this.#options.documents.maxCount);
    const { typeUrl, resources } = response;
    const { documents } = this.#options;
    if (!BY_XDS_TYPE.has(typeUrl)) return { group: undefined, events: [], replies: [] };
    try {
      const problem = problemOf(response);
      if (problem !== undefined) {
        const applied = yield* documents.change(typeUrl, resources, []);
        const received = this.#received(response, applied, [problem, ...applied.refused]);
        return { ...received, problem: `${typeUrl}: ${problem}` };
      }
      const applied = yield* documents.replace(typeUrl, resources);
      return this.#received(response, applied, applied.refused);
    } catch (error) {
      if (!(error instanceof CtlError)) throw error;
      const { message } = error;
      return { group: typeUrl, events: [], problem: message, replies: [this.#answer(response, message)] };
    }
  }

  #received(response: Response, { events, documents }: Applied, refused: readonly string[]): Received {
    const { typeUrl, version } = response;
    const before = this.#accepted.get(typeUrl) ?? '';
    const nack = (more: readonly string[]): Uint8Array[] => {
      // A later response may have been accepted meanwhile.
      if (this.#accepted.get(typeUrl) === version) this.#accepted.set(typeUrl, before);
      return [this.#answer(response, nackMessage([...refused, ...more]))];
    };
    if (refused.length === 0) this.#accepted.set(typeUrl, version);
    const replies = refused.length === 0 ? [this.#answer(response)] : nack([]);
    return { group: typeUrl, events, documents, replies, nack };
  }

  #answer({ typeUrl, nonce: responseNonce }: Response, problem?: string): Uint8Array {
    const versionInfo = this.#accepted.get(typeUrl) ?? '';
    const nack = problem === undefined ? {} : { errorDetail: { code: INVALID_ARGUMENT, message: problem } };
    return encode(DiscoveryRequest, { typeUrl, versionInfo, responseNonce, ...nack });
  }
}

/**
 * Why the response does not say which documents exist; undefined if it does. A server with another encoding must not
 * remove all policies.
 */
function problemOf({ foreign, resources }: Response): string | undefined {
  return foreign === 0 ? unnamedProblem(resources) : `${foreign} resources that are not ${RESOURCE_TYPE_URL}`;
}

/** Reads `DiscoveryResponse`. Throws CtlError `invalid_argument` for other bytes. */
function* decodeResponse(bytes: Buffer, most: number): Slices<Response> {
  const reader = new WireReader(bytes);
  const response: Response = { version: '', typeUrl: '', nonce: '', resources: [], foreign: 0 };
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field.number === 1) response.version = checkedToken('version', reader.text(field));
    else if (field.number === 2) takeAny(reader.content(field), response, most);
    else if (field.number === 4) response.typeUrl = reader.text(field);
    else if (field.number === 5) response.nonce = checkedToken('nonce', reader.text(field));
    yield;
  }
  return response;
}

function takeAny(bytes: Buffer, response: Response, most: number): void {
  const any = readable(() => anyAt(bytes));
  if ('typeUrl' in any && any.typeUrl === RESOURCE_TYPE_URL)
    addTo(response.resources, most, () => resourceAt(any.value));
  else response.foreign += 1;
}
