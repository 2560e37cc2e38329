/**
 * Decodes discovery requests field by field, with limits: the port may be open to anyone.
 * Source: envoy/service/discovery/v3/discovery.proto
 */
import type { Memos } from '../../core/memo.ts';
import { type WireField, WireReader } from '../../protobuf/wire/index.ts';
import type { AnyRequest, DeltaRequest, NameSets, SotwRequest } from '../protocol/index.ts';
import { KnownExtensions } from './known-extensions.ts';
import type { KnownRun, ListFields } from './message-assembly.ts';
import type { FormIndex } from './name-list-cache.ts';
import { ListField, ListKinds } from './request-lists.ts';
import type { RequestFormat } from './request-reader.ts';

/**
 * Envoy's error messages are cut to this many characters: they can quote a whole listener, or name every cluster. Those
 * that are kept are cut further.
 */
export const MAX_NACK_MESSAGE = 32 * 1024;

/** `google.rpc.Status.message` (field 2), shortened. */
function statusMessage(reader: WireReader): string {
  let message = '';
  for (let field = reader.next(); field !== undefined; field = reader.next())
    if (field.number === 2) {
      const end = Math.min(field.end, field.start + 4 * MAX_NACK_MESSAGE);
      message = reader.text({ ...field, end }).slice(0, MAX_NACK_MESSAGE);
    }
  return message;
}

/** What this server's requests are compared with. */
interface Shared {
  readonly kinds: ListKinds;
  readonly extensions: KnownExtensions;
}

type NodeFields = Pick<AnyRequest, 'node' | 'extensions'>;

const NO_NODE: NodeFields = { node: undefined };

/** A copy of the node without its extensions where they are known: many nodes are kept while their streams wait. */
function nodeFields(bytes: Buffer, { start, end }: WireField, extensions: KnownExtensions): NodeFields {
  return extensions.leaveOut(bytes, start, end) ?? { node: Buffer.from(bytes.subarray(start, end)) };
}

function decodeSotw({ kinds, extensions }: Shared, bytes: Buffer, known: readonly KnownRun[]): SotwRequest {
  const reader = new WireReader(bytes);
  const names = new ListField(kinds.names);
  for (const run of known) names.takeKnown(run);
  let typeUrl = '';
  let versionInfo = '';
  let responseNonce = '';
  let nack: string | undefined;
  let node = NO_NODE;
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field.number === 1) versionInfo = reader.text(field);
    else if (field.number === 2) node = nodeFields(bytes, field, extensions);
    else if (field.number === 3) names.take(reader, field);
    else if (field.number === 4) typeUrl = reader.text(field);
    else if (field.number === 5) responseNonce = reader.text(field);
    else if (field.number === 6) nack = statusMessage(reader.inside(field));
  }
  return { typeUrl, versionInfo, responseNonce, names: names.value(bytes), nack, ...node };
}

function decodeDelta({ kinds, extensions }: Shared, bytes: Buffer, known: readonly KnownRun[]): DeltaRequest {
  const reader = new WireReader(bytes);
  const subscribe = new ListField(kinds.names);
  const unsubscribe = new ListField(kinds.names);
  const versions = new ListField(kinds.versions);
  for (const run of known)
    if (run.field === 3) subscribe.takeKnown(run);
    else if (run.field === 4) unsubscribe.takeKnown(run);
    else versions.takeKnown(run);
  let typeUrl = '';
  let responseNonce = '';
  let nack: string | undefined;
  let node = NO_NODE;
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field.number === 1) node = nodeFields(bytes, field, extensions);
    else if (field.number === 2) typeUrl = reader.text(field);
    else if (field.number === 3) subscribe.take(reader, field);
    else if (field.number === 4) unsubscribe.take(reader, field);
    else if (field.number === 5) versions.take(reader, field);
    else if (field.number === 6) responseNonce = reader.text(field);
    else if (field.number === 7) nack = statusMessage(reader.inside(field));
  }
  return {
    typeUrl,
    responseNonce,
    subscribe: subscribe.value(bytes),
    unsubscribe: unsubscribe.value(bytes),
    initialVersions: versions.value(bytes),
    nack,
    ...node,
  };
}

/**
 * How one server reads the requests of both variants. Lists are compared with the lists that the server has read
 * before.
 */
export class RequestFormats {
  readonly sotw: RequestFormat<SotwRequest>;
  readonly delta: RequestFormat<DeltaRequest>;
  readonly extensions: KnownExtensions;

  /** With `memos` switched off, every list is decoded. */
  constructor(names: NameSets, memos: Memos) {
    const kinds = new ListKinds(names, memos);
    this.extensions = new KnownExtensions(memos.enabled);
    const shared = { kinds, extensions: this.extensions };
    const lists = (fields: readonly (readonly [number, FormIndex])[]): ListFields =>
      new Map(memos.enabled ? fields : []);
    this.sotw = {
      // resource_names
      lists: lists([[3, kinds.names.known]]),
      decode: (bytes, known = []) => decodeSotw(shared, bytes, known),
    };
    this.delta = {
      // resource_names_subscribe, resource_names_unsubscribe, initial_resource_versions
      lists: lists([
        [3, kinds.names.known],
        [4, kinds.names.known],
        [5, kinds.versions.known],
      ]),
      decode: (bytes, known = []) => decodeDelta(shared, bytes, known),
    };
  }
}
