/**
 * A client of configuration over xDS on one stream: Delta over ADS, with the types `GROUP/VERSION/KIND` and resources
 * of MCP. No I/O.
 *
 * Each type is requested once, for all of its documents, with the versions that are known from earlier streams. Each
 * response is answered with its nonce, and with the problems of its documents if there are any (a NACK); the others are
 * in force. The name and the version of a document are those of the response: a resource that is no document, or whose
 * `metadata.name` is another, is a refused document of that name.
 *
 * A response that is refused as a whole is not sent again, so that its type stays incomplete until the next stream.
 * Source: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#incremental-xds
 */
import { CtlError } from '../../core/errors.ts';
import type { Slices } from '../../core/slices.ts';
import { BY_XDS_TYPE, RESOURCE_TYPE_URL } from '../../mcp/index.ts';
import { encode, envoy } from '../../protobuf/index.ts';
import { WireReader } from '../../protobuf/wire/index.ts';
import type { Received } from './protocol.ts';
import type { ReceivedResource } from './received.ts';
import { addTo, anyAt, checkedToken, nackMessage, readable, resourceAt } from './resources.ts';
import { INVALID_ARGUMENT, nodeOf, type XdsClientOptions } from './xds-client.ts';

const { DeltaDiscoveryRequest } = envoy.service.discovery.v3;

/** Characters of a name or type of the server in a message. */
const MAX_SHOWN = 100;

interface Response {
  typeUrl: string;
  nonce: string;
  readonly resources: ReceivedResource[];
  readonly removed: string[];
}

export class DeltaClient {
  readonly path = '/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources';
  readonly groups: readonly string[] = [...BY_XDS_TYPE.keys()];
  readonly #options: XdsClientOptions;
  /** Why documents of a type are missing, by type. */
  readonly #incomplete = new Map<string, string>();
  /** Names that were stated without versions and were not answered, by type. */
  readonly #unanswered = new Map<string, Set<string>>();

  constructor(options: XdsClientOptions) {
    this.#options = options;
  }

  /** @param withVersions false: the names that are known are stated without versions, so that all are sent again */
  open({ withVersions = true }: { readonly withVersions?: boolean } = {}): Uint8Array[] {
    const { documents, node } = this.#options;
    this.#incomplete.clear();
    this.#unanswered.clear();
    return this.groups.map((typeUrl) => {
      const known = documents.versions(typeUrl);
      if (!withVersions) this.#unanswered.set(typeUrl, new Set(Object.keys(known)));
      const initialResourceVersions = withVersions
        ? known
        : Object.fromEntries(Object.keys(known).map((name) => [name, '']));
      // Without names, it is for all; servers that are older than the name `*` know that, too.
      return encode(DeltaDiscoveryRequest, { node: nodeOf(node), typeUrl, initialResourceVersions });
    });
  }

  /** Whether all documents of a type that were stated without versions have been sent or removed. */
  isAnswered(group: string): boolean {
    return (this.#unanswered.get(group)?.size ?? 0) === 0;
  }

  *receive(bytes: Buffer): Slices<Received> {
    const response = yield* decodeResponse(bytes, this.#options.documents.maxCount);
    const { typeUrl: group, resources, removed } = response;
    if (!BY_XDS_TYPE.has(group)) return { group: undefined, events: [], replies: [] };
    try {
      const { events, refused, documents } = yield* this.#options.documents.change(group, resources, removed);
      const unanswered = this.#unanswered.get(group);
      for (const name of [...resources.map((each) => each.name), ...removed]) unanswered?.delete(name);
      const nack = (more: readonly string[]) => [answer(response, nackMessage([...refused, ...more]))];
      const replies = refused.length === 0 ? [answer(response)] : nack([]);
      const problem = this.#incomplete.get(group);
      return { group, events, documents, replies, nack, ...(problem === undefined ? {} : { problem }) };
    } catch (error) {
      if (!(error instanceof CtlError)) throw error;
      const { message } = error;
      this.#incomplete.set(group, message);
      return { group, events: [], problem: message, replies: [answer(response, message)] };
    }
  }
}

function answer({ typeUrl, nonce: responseNonce }: Response, problem?: string): Uint8Array {
  const nack = problem === undefined ? {} : { errorDetail: { code: INVALID_ARGUMENT, message: problem } };
  return encode(DeltaDiscoveryRequest, { typeUrl, responseNonce, ...nack });
}

/** Reads `DeltaDiscoveryResponse`. Throws CtlError `invalid_argument` for other bytes. */
function* decodeResponse(bytes: Buffer, most: number): Slices<Response> {
  const reader = new WireReader(bytes);
  const response: Response = { typeUrl: '', nonce: '', resources: [], removed: [] };
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field.number === 2) addTo(response.resources, most, () => resourceOf(reader.content(field)));
    else if (field.number === 4) response.typeUrl = reader.text(field);
    else if (field.number === 5) response.nonce = checkedToken('nonce', reader.text(field));
    else if (field.number === 6) addTo(response.removed, most, () => reader.text(field));
    yield;
  }
  return response;
}

/** Reads `Resource`. */
function resourceOf(bytes: Buffer): ReceivedResource {
  const reader = new WireReader(bytes);
  let [name, version] = ['', ''];
  let content = Buffer.alloc(0);
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field.number === 1) version = checkedToken('version', reader.text(field));
    else if (field.number === 2) content = reader.content(field) as Buffer<ArrayBuffer>;
    else if (field.number === 3) name = reader.text(field);
  }
  const message = readable(() => anyAt(content));
  if ('fault' in message) return { name, version, bytes: content, fault: message.fault };
  const { typeUrl, value } = message;
  if (typeUrl !== RESOURCE_TYPE_URL) {
    const fault = `expected ${RESOURCE_TYPE_URL}, got ${JSON.stringify(typeUrl.slice(0, MAX_SHOWN))}`;
    return { name, version, bytes: value, fault };
  }
  const found = resourceAt(value);
  if (found.fault !== undefined) return { ...found, name, version };
  if (found.name === name) return { ...found, version };
  const fault = `metadata.name is ${JSON.stringify(found.name.slice(0, MAX_SHOWN))}`;
  return { name, version, bytes: value, fault };
}
