/** Why a change of the model is pushed. */
import type { ChangeSet } from '../../model/index.ts';
import type { PushReason } from '../push.ts';

/** Empty for a change that does not affect views and generation. */
export function pushReasons(changes: ChangeSet): ReadonlySet<PushReason> {
  const { everything, services, configs, endpoints, addresses, workloads, labelled, scopes } = changes;
  const reasons = new Set<PushReason>();
  if (everything) reasons.add('mesh');
  if (services.size > 0) reasons.add('service');
  if (configs.size > 0) reasons.add('config');
  if (reasons.size > 0) return reasons;
  if (endpoints.size > 0) reasons.add('endpoint');
  else if (addresses.size + workloads.size + labelled.size + scopes.size > 0) reasons.add('proxy');
  return reasons;
}
