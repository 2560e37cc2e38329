/** Objects in the form of the API server, JSON or protobuf, and the kinds of collections that are read. */
import { CtlError, messageOf } from '../core/errors.ts';
import { isObject } from '../core/objects.ts';
import { type Status, statusObject } from './api-error.ts';
import {
  CORE_MESSAGES,
  LAST_APPLIED,
  LIST,
  MAGIC,
  METADATA_ONLY,
  STATUS,
  UNKNOWN,
  WATCH_EVENT,
} from './core-messages.ts';
import { decodeFirstField, decodeMessage, type MessageTable } from './wire.ts';

/** A kind as an API server serves it. */
export interface ResourceType {
  /** Empty for the core group. */
  readonly group: string;
  readonly version: string;
  /** Name in URLs, such as `endpointslices`. */
  readonly plural: string;
  readonly kind: string;
  readonly namespaced: boolean;
  /** Set when only the metadata of the objects is read. */
  readonly metadataOnly?: boolean;
  /** Set if all fields of a core kind are read. By default, only some fields of core kinds are decoded. */
  readonly wholeObjects?: boolean;
}

/** A kind in version v1, namespaced by default. @param group empty for the core group */
export function v1Type<K extends string>(
  group: string,
  kind: K,
  plural: string,
  more: Partial<Pick<ResourceType, 'namespaced' | 'metadataOnly' | 'wholeObjects'>> = {},
): ResourceType & { readonly kind: K } {
  return { group, version: 'v1', plural, kind, namespaced: true, ...more };
}

export const CONFIG_MAPS = v1Type('', 'ConfigMap', 'configmaps');
export const SECRETS = v1Type('', 'Secret', 'secrets');

/** The metadata that this program reads of an object (Kubernetes ObjectMeta). */
export interface ObjectMeta {
  readonly name: string;
  readonly namespace?: string;
  readonly uid?: string;
  readonly generation?: number;
  readonly resourceVersion?: string;
  /** Present while the object is being deleted. */
  readonly deletionTimestamp?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

/** An object with `apiVersion`, `kind` and whatever its kind has beside them. */
export interface KubernetesObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: ObjectMeta;
  readonly [field: string]: unknown;
}

export interface DecodedObject {
  /** Only the metadata when there is an error. */
  readonly object: KubernetesObject;
  /** Why the rest of the object cannot be decoded. */
  readonly error?: CtlError;
}

export interface ListPage {
  readonly objects: readonly DecodedObject[];
  readonly resourceVersion: string;
  /** Token for the next page; empty on the last. */
  readonly continue: string;
}

export type WatchEvent =
  | ({ readonly type: 'set' } & DecodedObject)
  | { readonly type: 'deleted'; readonly object: KubernetesObject }
  | { readonly type: 'bookmark'; readonly resourceVersion: string; readonly isEndOfList: boolean }
  | { readonly type: 'error'; readonly status: Status };

/** On the bookmark after the last object of a streaming list (KEP-3157). */
const END_OF_LIST = 'k8s.io/initial-events-end';

export function apiVersionOf({ group, version }: Pick<ResourceType, 'group' | 'version'>): string {
  return group === '' ? version : `${group}/${version}`;
}

/** Path of a collection or, with a name, of one object. */
export function pathOf(type: ResourceType, namespace?: string, name?: string): string {
  const root = type.group === '' ? '/api' : `/apis/${type.group}`;
  const within = type.namespaced && namespace !== undefined ? `/namespaces/${encodeURIComponent(namespace)}` : '';
  const object = name === undefined ? '' : `/${encodeURIComponent(name)}`;
  return `${root}/${type.version}${within}/${type.plural}${object}`;
}

/** Identifies an object among those of its kind. */
export function objectKey({ metadata }: KubernetesObject): string {
  return `${metadata.namespace ?? ''}/${metadata.name}`;
}

/**
 * Whether a version of an object is earlier than another of it (Kubernetes API concepts, "Resource version strings").
 * Versions that are not numbers are not compared: neither is older.
 */
export function isOlder(one: { readonly version: string }, other: { readonly version: string }): boolean {
  const [a, b] = [one.version, other.version];
  return /^\d+$/.test(a) && /^\d+$/.test(b) && BigInt(a) < BigInt(b);
}

export const PROTOBUF = 'application/vnd.kubernetes.protobuf';
const JSON_TYPE = 'application/json';

/** Reads the responses to lists and watches of one kind. */
export class ObjectReader {
  readonly #type: ResourceType;
  readonly #table: MessageTable | undefined;

  constructor(type: ResourceType) {
    this.#type = type;
    const lean = type.wholeObjects === true ? undefined : CORE_MESSAGES.get(type.kind);
    this.#table = type.metadataOnly === true ? METADATA_ONLY : lean;
  }

  /** The header Accept: protobuf if this kind can be decoded from it, and JSON, which every server supports. */
  accept(of: 'list' | 'watch'): string {
    const form = of === 'watch' ? ';stream=watch' : '';
    if (this.#type.metadataOnly === true) {
      const as = `as=PartialObjectMetadata${of === 'watch' ? '' : 'List'};g=meta.k8s.io;v=v1`;
      return `${PROTOBUF};${as}${form},${JSON_TYPE};${as}${form}`;
    }
    const json = `${JSON_TYPE}${form}`;
    return this.#table === undefined ? json : `${PROTOBUF}${form},${json}`;
  }

  /** How the frames of a watch of this content type are delimited. */
  framing(contentType: string): 'lines' | 'lengths' {
    return contentType.startsWith(PROTOBUF) ? 'lengths' : 'lines';
  }

  /** @throws CtlError where the body is not a list of this kind */
  list(body: Buffer, contentType: string): ListPage {
    const list = contentType.startsWith(PROTOBUF)
      ? this.#protobufList(body)
      : (JSON.parse(body.toString('utf8')) as unknown);
    const metadata = isObject(list) ? list.metadata : undefined;
    if (!isObject(list) || !isObject(metadata) || typeof metadata.resourceVersion !== 'string') {
      throw unreadable('expected a list with a resourceVersion');
    }
    // In JSON, even an empty list has `items`, which may be null: an object without `items` is not a list.
    const { items } = list;
    if (metadata.resourceVersion === '' || (items !== null && !Array.isArray(items))) {
      throw unreadable('expected a list with items and a resourceVersion');
    }
    return {
      objects: (items ?? []).map((item) => this.#decoded(item)),
      resourceVersion: metadata.resourceVersion,
      continue: typeof metadata.continue === 'string' ? metadata.continue : '',
    };
  }

  /** @throws CtlError where the frame is not an event of this kind */
  event(frame: Buffer, contentType: string): WatchEvent {
    const event: unknown = contentType.startsWith(PROTOBUF)
      ? this.#protobufEvent(frame)
      : JSON.parse(frame.toString('utf8'));
    if (!isObject(event)) throw unreadable('expected an event');
    const { type, object } = event;
    if (type === 'ERROR') {
      return {
        type: 'error',
        status: statusObject(object) ?? { code: 500, reason: '', message: 'an error without a status' },
      };
    }
    if (type === 'ADDED' || type === 'MODIFIED') return { type: 'set', ...this.#decoded(object) };
    if (type === 'DELETED') return { type: 'deleted', object: this.#decoded(object).object };
    if (type !== 'BOOKMARK') throw unreadable(`expected an event, got one of type ${String(type)}`);
    const metadata = isObject(object) && isObject(object.metadata) ? object.metadata : {};
    const { resourceVersion, annotations } = metadata;
    if (typeof resourceVersion !== 'string') throw unreadable('expected a bookmark with a resourceVersion');
    return {
      type: 'bookmark',
      resourceVersion,
      isEndOfList: isObject(annotations) && annotations[END_OF_LIST] === 'true',
    };
  }

  /**
   * Decodes an object from JSON or protobuf. An object that cannot be decoded is reported by its name, so that the
   * other objects of a list or watch are not delayed. @throws CtlError if not even its name can be read
   */
  #decoded(value: unknown): DecodedObject {
    if (!(value instanceof Uint8Array)) return { object: this.#object(value) };
    try {
      return { object: this.#object(this.#decode(value)) };
    } catch (error) {
      const reason = `expected an object of this kind: ${messageOf(error)}`;
      // In every kind, the metadata is the first field.
      return { object: this.#object(decodeFirstField(METADATA_ONLY, value)), error: unreadable(reason) };
    }
  }

  /** The object with its kind, which lists omit, and without large fields that are never read. */
  #object(value: unknown): KubernetesObject {
    const metadata = isObject(value) ? value.metadata : undefined;
    if (!isObject(value) || !isObject(metadata) || typeof metadata.name !== 'string') {
      throw unreadable('expected an object with a name');
    }
    const { managedFields: _managedFields, ...rest }: Record<string, unknown> = metadata;
    if (isObject(rest.annotations) && LAST_APPLIED in rest.annotations) {
      const { [LAST_APPLIED]: _lastApplied, ...annotations } = rest.annotations;
      rest.annotations = annotations;
    }
    const { kind } = this.#type;
    // The fields that are read of it are of these types in every version of the API (ObjectMeta).
    return { ...value, apiVersion: apiVersionOf(this.#type), kind, metadata: rest as unknown as ObjectMeta };
  }

  #protobufList(body: Buffer): unknown {
    const { metadata, items = [] } = decodeMessage(LIST, unwrap(body));
    return { metadata, items };
  }

  #protobufEvent(frame: Buffer): unknown {
    const { type, object } = decodeMessage(WATCH_EVENT, frame);
    const raw = isObject(object) ? object.raw : undefined;
    if (!(raw instanceof Uint8Array)) throw unreadable('expected an event with an object');
    const bytes = unwrap(raw);
    if (type === 'ERROR') return { type, object: decodeMessage(STATUS, bytes) };
    return { type, object: type === 'BOOKMARK' ? decodeFirstField(METADATA_ONLY, bytes) : bytes };
  }

  #decode(bytes: Uint8Array): unknown {
    return decodeMessage(this.#table ?? METADATA_ONLY, bytes);
  }
}

/** The body of a failed request, which is a Status. @throws if it is not */
export function decodeStatus(body: Buffer, contentType: string): unknown {
  return contentType.startsWith(PROTOBUF) ? decodeMessage(STATUS, unwrap(body)) : JSON.parse(body.toString('utf8'));
}

/** The message inside an object's envelope. */
function unwrap(bytes: Uint8Array): Uint8Array {
  if (!MAGIC.every((byte, index) => bytes[index] === byte)) throw unreadable('expected a protobuf object');
  const { raw } = decodeMessage(UNKNOWN, bytes.subarray(MAGIC.length));
  return raw instanceof Uint8Array ? raw : new Uint8Array();
}

/** The error for a response that the API does not permit. The request is repeated, as after a lost connection. */
function unreadable(expected: string): CtlError {
  return new CtlError('unavailable', expected);
}
