/** References between objects: which are permitted across namespaces (ReferenceGrant), and what they lead to. */
import type { ObjectReference } from '../../resources/index.ts';
import type { Documents } from './documents.ts';

export const GATEWAY_GROUP = 'gateway.networking.k8s.io';

/** The object that refers to another. */
export interface Referrer {
  readonly kind: string;
  readonly namespace: string;
}

/**
 * Whether an object of the Gateway API may refer to another: within a namespace always, across namespaces where a
 * ReferenceGrant in the namespace of the other permits it.
 * @param group of the other, '' for the core group
 */
export function isPermitted(
  documents: Documents,
  from: Referrer,
  group: string,
  kind: string,
  { namespace = from.namespace, name }: Pick<ObjectReference, 'namespace' | 'name'>,
): boolean {
  if (namespace === from.namespace) return true;
  return documents
    .grantsOf(namespace)
    .some(
      ({ content }) =>
        content.from.some(
          (each) => each.group === GATEWAY_GROUP && each.kind === from.kind && each.namespace === from.namespace,
        ) &&
        content.to.some(
          (each) =>
            each.group === group &&
            each.kind === kind &&
            (each.name === undefined || each.name === '' || each.name === name),
        ),
    );
}
