/** Decides which single revision of the control plane serves a Gateway or writes the status of a class. */
import type { Resource } from '../../resources/index.ts';
import type { Documents } from './documents.ts';

/** The revision of objects without a label. */
export const DEFAULT_REVISION = 'default';

/** The label of a Gateway, a GatewayClass or a Namespace. */
const REVISION_LABEL = 'mesh.io/rev';

/** The revision of the object's label, else of that of its Namespace. */
export function revisionOf(
  documents: Documents,
  { meta }: Resource<'KubernetesGateway'> | Resource<'GatewayClass'>,
): string {
  const own = meta.labels[REVISION_LABEL];
  if (own || meta.namespace === '') return own || DEFAULT_REVISION;
  return documents.get('Namespace', '', meta.namespace)?.meta.labels[REVISION_LABEL] || DEFAULT_REVISION;
}
