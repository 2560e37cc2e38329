/** Converts an object of an API server to a resource, or to a problem. */
import type { CtlError } from '../../core/errors.ts';
import type { KubernetesObject } from '../../kubernetes/index.ts';
import {
  type DocumentLimits,
  documentLimits,
  isClusterScoped,
  type Kind,
  type ListedEvent,
  type ParsedResource,
  parseResource,
  type ResourceKey,
  type ResourceOrigin,
  resourceKey,
} from '../../resources/index.ts';

export function keyOfObject(kind: Kind, { metadata }: KubernetesObject): ResourceKey {
  return resourceKey(kind, isClusterScoped(kind) ? '' : (metadata.namespace ?? ''), metadata.name);
}

/** An object as it was received, before it is read. */
export interface ReceivedObject {
  readonly key: ResourceKey;
  readonly object: KubernetesObject;
  /** Why nothing but its metadata could be decoded. */
  readonly error?: CtlError;
  /** Monotonic ms. */
  readonly eventTime: number;
}

/** Whether the event was read from this version of the object. */
export function isSameObject(event: ListedEvent, { metadata }: KubernetesObject): boolean {
  const { uid, resourceVersion } = event.type === 'set' ? event.resource.origin : event.problem.origin;
  return resourceVersion !== undefined && resourceVersion === metadata.resourceVersion && uid === metadata.uid;
}

/** @param eventTime monotonic ms at which the object was received */
export function readObject(
  source: string,
  kind: Kind,
  object: KubernetesObject,
  eventTime: number,
  limits: DocumentLimits = documentLimits(1),
): ListedEvent {
  const origin = originOf(source, object);
  const parsed = parse(object, origin, limits);
  if ('resource' in parsed) return { type: 'set', resource: parsed.resource, eventTime };
  const key = keyOfObject(kind, object);
  // The API server has checked the name, so the problem concerns only this key, whatever else is wrong.
  const problem = 'problem' in parsed ? parsed.problem : { origin, field: '', message: `expected ${kind}` };
  return { type: 'invalid', problem: { ...problem, id: key, key }, eventTime };
}

/**
 * The problem of an object of which only the metadata could be decoded.
 *
 * @param message what is wrong with it
 */
export function unreadableObject(
  source: string,
  kind: Kind,
  object: KubernetesObject,
  message: string,
  eventTime: number,
): ListedEvent {
  const key = keyOfObject(kind, object);
  const problem = { id: key, key, origin: originOf(source, object), field: '', message };
  return { type: 'invalid', problem, eventTime };
}

function originOf(source: string, { metadata }: KubernetesObject): ResourceOrigin {
  const { uid, generation, resourceVersion } = metadata;
  return {
    source,
    ...(uid === undefined ? {} : { uid }),
    ...(generation === undefined ? {} : { generation }),
    ...(resourceVersion === undefined ? {} : { resourceVersion }),
  };
}

/**
 * Parses an object. One that cannot be parsed at all, for example because its nesting exceeds the stack, is refused
 * without affecting others.
 */
function parse(object: KubernetesObject, origin: ResourceOrigin, limits: DocumentLimits): ParsedResource {
  try {
    return parseResource(object, origin, () => undefined, { limits });
  } catch (error) {
    const { apiVersion, kind, metadata } = object;
    const { name, namespace } = metadata;
    const stub = { apiVersion, kind, metadata: { name, ...(namespace === undefined ? {} : { namespace }) }, spec: '' };
    const parsed = parseResource(stub, origin, () => undefined);
    const message = `expected a readable object: ${error instanceof Error ? error.message : String(error)}`;
    return 'problem' in parsed ? { problem: { ...parsed.problem, field: 'spec', message } } : parsed;
  }
}
