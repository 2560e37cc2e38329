/**
 * References between objects: which are permitted across namespaces (ReferenceGrant), and why one cannot be resolved.
 */
import type { ObjectReference } from '../../resources/index.ts';
import type { Documents } from './documents.ts';

export const GATEWAY_GROUP = 'gateway.networking.k8s.io';

export interface Referrer {
  readonly kind: string;
  readonly namespace: string;
}

/** Why a referenced document is not available: it does not exist, or is not known yet. */
export function absence(documents: Documents, kind: 'ConfigMap' | 'Secret', namespace: string, name: string): string {
  const what = `${kind} ${namespace}/${name}`;
  switch (documents.accessTo(kind, name)) {
    case 'forbidden':
      return `${what} may not be read: the control plane has no right to list and watch ${kind}s of this name`;
    case 'pending':
      return `${what} has not been read yet`;
    default:
      return `${what} does not exist or is not valid`;
  }
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
