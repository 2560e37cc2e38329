/**
 * What a proxy says of itself against what its credential proves: a stream may claim only the namespace and account of
 * its caller.
 */
import { CtlError } from '../../core/errors.ts';
import type { ProxyNode } from '../../core/proxy.ts';
import type { Caller } from '../../security/types.ts';

function denied(field: string, claim: string, proved: string): CtlError {
  const shown = JSON.stringify(claim.slice(0, 253));
  return new CtlError('permission_denied', `claims ${shown}, but its credential is of ${JSON.stringify(proved)}`, {
    field,
  });
}

/** Namespaces that a node's id speaks of, where it has the usual form `<pod>.<namespace>~<namespace>.svc.<domain>`. */
function namespacesOfId({ workload, dnsDomain }: ProxyNode): string[] {
  const dot = workload.lastIndexOf('.');
  const inWorkload = dot < 0 ? [] : [workload.slice(dot + 1)];
  const [inDomain = '', next] = dnsDomain.split('.');
  return next === 'svc' ? [...inWorkload, inDomain] : inWorkload;
}

/**
 * The node with the caller's identity, and its service account where it does not say one. Throws CtlError
 * permission_denied when it claims what its credential does not prove. The namespace of a foreign trust domain stands
 * for the one of the same name here.
 */
export function claimedNode(node: ProxyNode, { identity }: Caller): ProxyNode {
  const { namespace, serviceAccount } = identity;
  if (node.namespace !== namespace) throw denied('node.metadata.NAMESPACE', node.namespace, namespace);
  const other = namespacesOfId(node).find((one) => one !== namespace);
  if (other !== undefined) throw denied('node.id', other, namespace);
  if (node.serviceAccount !== '' && node.serviceAccount !== serviceAccount) {
    throw denied('node.metadata.SERVICE_ACCOUNT', node.serviceAccount, serviceAccount);
  }
  return { ...node, serviceAccount, identity };
}
