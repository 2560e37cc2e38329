/** From an object of an API server to a resource, or to what is wrong with it. */
import type { KubernetesObject } from '../../kubernetes/index.ts';
import {
  isClusterScoped,
  type Kind,
  type ListedEvent,
  parseResource,
  type ResourceKey,
  resourceKey,
} from '../../resources/index.ts';

export function keyOfObject(kind: Kind, { metadata }: KubernetesObject): ResourceKey {
  return resourceKey(kind, isClusterScoped(kind) ? '' : (metadata.namespace ?? ''), metadata.name);
}

/** An object and its key. */
export interface ReadObject {
  readonly key: ResourceKey;
  readonly event: ListedEvent;
}

/** @param eventTime monotonic ms at which the object was received */
export function readObject(source: string, kind: Kind, object: KubernetesObject, eventTime: number): ReadObject {
  const { uid, generation, resourceVersion } = object.metadata;
  const origin = {
    source,
    ...(uid === undefined ? {} : { uid }),
    ...(generation === undefined ? {} : { generation }),
    ...(resourceVersion === undefined ? {} : { resourceVersion }),
  };
  const key = keyOfObject(kind, object);
  const parsed = parseResource(object, origin, () => undefined);
  if ('resource' in parsed) return { key, event: { type: 'set', resource: parsed.resource, eventTime } };
  // The API server has checked the name, whatever else is wrong: a problem of this key and no other.
  const problem = 'problem' in parsed ? parsed.problem : { origin, field: '', message: `expected ${kind}` };
  return { key, event: { type: 'invalid', problem: { ...problem, id: key, key }, eventTime } };
}
