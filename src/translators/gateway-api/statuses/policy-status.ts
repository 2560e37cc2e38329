/** Statuses of BackendTLSPolicies: one entry for each Gateway with a route to a Service of the policy. */
import type { Resource } from '../../../resources/index.ts';
import { backendTls, inOrder, isFor, type Policy, targetsOf } from '../backends/backend-tls.ts';
import { type Complaint, verdict } from '../conditions.ts';
import type { Documents } from '../documents.ts';
import { GATEWAY_GROUP } from '../references.ts';
import type { PolicyAncestorStatus } from '../status-types.ts';
import type { BackendUsers } from './backend-users.ts';

/** Maximum number of ancestors in a status (Gateway API). */
const MAX_ANCESTORS = 16;

export function policyAncestors(
  documents: Documents,
  users: BackendUsers,
  policy: Policy,
  controllerName: string,
): readonly PolicyAncestorStatus[] {
  const { generation } = policy.meta;
  const services = targetsOf(policy);
  const gateways = [...new Set(services.flatMap((service) => users.gatewaysOf(service)))].sort();
  if (gateways.length === 0) return [];
  const { rejected, unresolved } = backendTls(documents, policy);
  const complaint = findConflict(users, policy) ?? missingTarget(documents, policy) ?? rejected;
  const conditions = [
    verdict('Accepted', complaint, { reason: 'Accepted', message: 'the policy is in force' }, generation),
    verdict('ResolvedRefs', unresolved, { reason: 'ResolvedRefs', message: 'all references are resolved' }, generation),
  ];
  return gateways.slice(0, MAX_ANCESTORS).map((gateway) => {
    const [namespace = '', name = ''] = gateway.split('/');
    return { ancestorRef: { group: GATEWAY_GROUP, kind: 'Gateway', namespace, name }, controllerName, conditions };
  });
}

/** If several policies are for the same section of a Service, the first one applies. */
function findConflict(users: BackendUsers, policy: Policy): Complaint | undefined {
  for (const service of targetsOf(policy)) {
    const all = inOrder(users.policiesOf(service));
    for (const { sectionName } of policy.content.targetRefs ?? []) {
      const section = sectionName || undefined;
      if (!isFor(policy, service, section)) continue;
      const first = all.find((each) => isFor(each, service, section));
      if (first === undefined || first.meta.name === policy.meta.name) continue;
      const message = `Service ${service} has BackendTLSPolicy ${first.meta.name}, which takes precedence`;
      return { reason: 'Conflicted', message };
    }
  }
  return undefined;
}

function missingTarget(documents: Documents, { meta, content }: Policy): Complaint | undefined {
  const found = (content.targetRefs ?? []).map(({ name, sectionName }) => {
    const service: Resource<'Service'> | undefined = documents.get('Service', meta.namespace, name);
    const ports = service?.content.spec.ports ?? [];
    return service !== undefined && (!sectionName || ports.some((port) => port.name === sectionName));
  });
  if (found.every((each) => each)) return undefined;
  return { reason: 'TargetNotFound', message: 'a Service, or a port of this name, does not exist' };
}
