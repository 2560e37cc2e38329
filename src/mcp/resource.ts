/**
 * Documents as resources of configuration protocols: `istio.mcp.v1alpha1.Resource` with the name `NAMESPACE/NAME`, and
 * the document's message in its body.
 */
import { messageOf } from '../core/errors.ts';
import { decodeDocument, encodeDocument } from '../protobuf/documents/index.ts';
import { google, istio, messageNameOf } from '../protobuf/index.ts';
import {
  type AnyResource,
  apiVersionsOf,
  type DocumentLimits,
  istioKey,
  type ParsedResource,
  parseResource,
  type ResourceProblem,
} from '../resources/index.ts';
import type { ExchangedKind } from './kinds.ts';

const { Resource } = istio.mcp.v1alpha1;
const TYPE_URL_PREFIX = 'type.googleapis.com/';

/** The type URL of a resource inside a response of configuration over xDS. */
export const RESOURCE_TYPE_URL = `${TYPE_URL_PREFIX}istio.mcp.v1alpha1.Resource`;

/** A resource that was read: a document, or why it is refused. */
export type ReadResource = { readonly resource: AnyResource } | { readonly problem: ResourceProblem };

export interface ReadOptions {
  readonly kind: ExchangedKind;
  /** Id of the source, for the origin of documents. */
  readonly source: string;
  readonly limits: DocumentLimits;
}

/** The names of a resource's metadata, and its version. */
export interface ResourceHead {
  readonly name: string;
  readonly version: string;
}

/** A resource as it was received. */
export interface ReceivedHead extends ResourceHead {
  /** Why it is no document of this name, one line. */
  readonly fault?: string;
}

/** `NAMESPACE/NAME`, with nothing else. */
const NAME = /^([^/]+)\/([^/]+)$/;

/** Reads the document of a resource. It never throws: what cannot be read is a problem. */
export function readResource(bytes: Uint8Array, head: ReceivedHead, options: ReadOptions): ReadResource {
  const { kind, source, limits } = options;
  const [, namespace = '', name = head.name] = NAME.exec(head.name) ?? [];
  const origin = { source, ...(head.version === '' ? {} : { resourceVersion: head.version.slice(0, MAX_VERSION) }) };
  const parse = (of: Content, within?: DocumentLimits): ParsedResource => {
    const metadata = { name, namespace, ...of.metadata };
    const raw = { apiVersion: apiVersionsOf(kind.kind)[0], kind: kind.kind, metadata, spec: of.spec };
    return parseResource(raw, origin, () => undefined, within === undefined ? {} : { limits: within });
  };
  let content = head.fault === undefined ? contentOf(bytes, kind) : unreadable(head.fault);
  let parsed: ParsedResource;
  try {
    parsed = parse(content, limits);
  } catch (error) {
    // A bug that this document brings to light must not end the stream of all.
    content = unreadable(`expected a readable document: ${messageOf(error)}`);
    parsed = parse(content);
  }
  if ('resource' in parsed) return parsed;
  const problem = 'problem' in parsed ? parsed.problem : undefined;
  const id = problem?.key ?? `${kind.kind}#${head.name.slice(0, MAX_SHOWN_NAME)}`;
  const described = { field: problem?.field ?? '', message: problem?.message ?? 'expected a document of the mesh' };
  const base = { ...problem, ...described, id, origin };
  if (NAME.test(head.name)) return { problem: content.problem === undefined ? base : { ...base, ...content.problem } };
  const message = `expected the name NAMESPACE/NAME, got ${JSON.stringify(head.name.slice(0, MAX_SHOWN_NAME))}`;
  return { problem: { ...base, field: 'metadata.name', message } };
}

const MAX_SHOWN_NAME = 80;
const MAX_VERSION = 128;

interface Content {
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly spec: unknown;
  /** Why the body cannot be read. */
  readonly problem?: Pick<ResourceProblem, 'field' | 'message'>;
}

function unreadable(reason: string, metadata = {}): Content {
  // Not an object: a policy is replaced by the strictest that it can have meant.
  return { metadata, spec: 'unreadable', problem: { field: 'body', message: reason } };
}

function contentOf(bytes: Uint8Array, { message }: ExchangedKind): Content {
  try {
    const { metadata: meta, body } = Resource.decode(bytes);
    const created = meta?.createTime;
    const metadata = {
      ...timeOf(Number(created?.seconds ?? 0)),
      labels: meta?.labels ?? {},
      annotations: meta?.annotations ?? {},
    };
    const found = messageNameOf(body?.typeUrl ?? '');
    if (found !== message)
      return unreadable(`expected ${message}, got ${JSON.stringify(found.slice(0, 256))}`, metadata);
    try {
      const { json, unknown } = decodeDocument(message, body?.value ?? new Uint8Array());
      // As a field of YAML that is not known: a policy with one is refused, other documents have a warning.
      return { metadata, spec: { ...json, ...Object.fromEntries(unknown.map((field) => [field, true])) } };
    } catch (error) {
      return unreadable(messageOf(error), metadata);
    }
  } catch {
    return unreadable('the bytes are not a valid istio.mcp.v1alpha1.Resource');
  }
}

/**
 * The metadata of a time in seconds since the epoch; nothing for 0, by which ends say that they have none, and for a
 * time that a document cannot have.
 */
function timeOf(seconds: number): { readonly creationTimestamp?: string } {
  const last = 253_402_300_799;
  return seconds > 0 && seconds <= last ? { creationTimestamp: new Date(seconds * 1000).toISOString() } : {};
}

/** A document in force as it is sent, with its version. */
export interface EncodedResource extends ResourceHead {
  /** Bytes of the message `Resource`. */
  readonly bytes: Uint8Array;
}

/**
 * Encodes a document. Throws CtlError `invalid_argument` if the message cannot carry it: what it says must not be lost
 * on the way.
 */
export function encodeResource(
  { message }: ExchangedKind,
  { meta, content, fingerprint }: AnyResource,
): EncodedResource {
  const name = `${meta.namespace}/${meta.name}`;
  const value = encodeDocument(message, content, istioKey);
  const { labels, annotations, created } = meta;
  // Always: the client of Istio for configuration over xDS refuses a resource without it.
  const createTime = { seconds: Math.floor((created ?? 0) / 1000) };
  const bytes = Resource.encode({
    metadata: { name, version: fingerprint, labels, annotations, createTime },
    body: { typeUrl: `${TYPE_URL_PREFIX}${message}`, value },
  }).finish();
  return { name, version: fingerprint, bytes };
}

/** The Any with a resource, as a response of configuration over xDS has it. */
export function anyOf({ bytes }: EncodedResource): Uint8Array {
  return google.protobuf.Any.encode({ typeUrl: RESOURCE_TYPE_URL, value: bytes }).finish();
}
