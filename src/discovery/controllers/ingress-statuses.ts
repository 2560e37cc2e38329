/** Writes the addresses of the gateways to the Ingresses that they serve, where this replica leads. */
import { IngressStatuses } from '../../gateway-controller/index.ts';
import type { LeaderTask } from '../clusters/leadership.ts';
import { type ControllerInputs, runWhileLeading, statusOptions } from './leader-controller.ts';

/**
 * Starts to take part in the election; undefined when no Ingress is read from the API server. Called once everything
 * has been read: until then it is not known which Ingresses are served.
 */
export function runIngressStatuses(inputs: ControllerInputs): LeaderTask | undefined {
  const { settings, cluster, translation, mesh } = inputs;
  // With a directory, Ingresses are read from its files.
  if (mesh.ingressControllerMode === 'OFF' || settings.configDir !== '') return undefined;
  const desired = () => translation.ingress.statuses();
  const create = () => new IngressStatuses({ ...statusOptions(inputs), desired });
  // Revisions may serve different classes by different gateways: each has a leader.
  const task = runWhileLeading(cluster.leadership, 'ingress-status', create);
  translation.onStatuses('ingress', task.changed);
  return task;
}
