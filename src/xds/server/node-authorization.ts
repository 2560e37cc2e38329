/**
 * Checks a proxy's node against its credential: a stream may have only the namespace and the service account of its
 * caller.
 */
import { CtlError } from '../../core/errors.ts';
import type { ProxyNode } from '../../core/proxy.ts';
import type { Caller } from '../../security/index.ts';

function denied(field: string, value: string, allowed: string): CtlError {
  const shown = JSON.stringify(value.slice(0, 253));
  const message = `is ${shown}, but the credential of the stream is for ${JSON.stringify(allowed)}`;
  return new CtlError('permission_denied', message, { field });
}

/** Namespaces in a node's id, where it has the usual form `<pod>.<namespace>~<namespace>.svc.<domain>`. */
function namespacesOfId({ workload, dnsDomain }: ProxyNode): string[] {
  const dot = workload.lastIndexOf('.');
  const inWorkload = dot < 0 ? [] : [workload.slice(dot + 1)];
  const [inDomain = '', next] = dnsDomain.split('.');
  return next === 'svc' ? [...inWorkload, inDomain] : inWorkload;
}

/**
 * The node with the caller's identity and service account. Throws CtlError permission_denied when the node names
 * another namespace or service account than the credential. A namespace of another trust domain counts as the one of
 * the same name here.
 */
export function authorizedNode(node: ProxyNode, { identity }: Caller): ProxyNode {
  const { namespace, serviceAccount } = identity;
  if (node.namespace !== namespace) throw denied('node.metadata.NAMESPACE', node.namespace, namespace);
  const other = namespacesOfId(node).find((one) => one !== namespace);
  if (other !== undefined) throw denied('node.id', other, namespace);
  if (node.serviceAccount !== '' && node.serviceAccount !== serviceAccount) {
    throw denied('node.metadata.SERVICE_ACCOUNT', node.serviceAccount, serviceAccount);
  }
  return { ...node, serviceAccount, identity };
}
