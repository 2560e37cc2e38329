/**
 * Runs the controller of the Gateway API where this replica leads: it writes the statuses that the translation computes
 * and deploys gateways.
 */
import { buildInfo } from '../core/build-info.ts';
import { GatewayController, type InfrastructureSettings } from '../gateway-controller/index.ts';
import { getScope } from '../logging/index.ts';
import type { MeshConfig } from '../resources/index.ts';
import { ROOT_CONFIG_MAP } from '../security/index.ts';
import type { DiscoverySettings } from '../settings/index.ts';
import { CONTROLLER_NAME } from '../translators/index.ts';
import { type ControllerInputs, runWhileLeading, statusOptions } from './leader-controller.ts';
import type { LeaderTask } from './leadership.ts';
import { revisionSuffix } from './revision.ts';

const SECURE_PORT = 15_012;

/**
 * Starts to take part in the election; undefined when the Gateway API is not served. Called once everything has been
 * read: statuses that are computed from less would be wrong.
 */
export function runGatewayController(inputs: ControllerInputs): LeaderTask | undefined {
  const { settings, cluster, translation, mesh } = inputs;
  const translator = translation.gatewayApi;
  if (translator === undefined) return undefined;
  const create = () =>
    new GatewayController({
      ...statusOptions(inputs),
      controllerName: CONTROLLER_NAME,
      desired: () => translator.statuses(),
      infrastructure: () => infrastructure(settings, mesh),
      deployLog: getScope('orch'),
    });
  // All revisions have one controller name, and so would write the same objects.
  const task = runWhileLeading(cluster.leadership, 'gateway-api', create, { acrossRevisions: true });
  translation.onStatuses('gatewayApi', task.changed);
  return task;
}

function infrastructure(settings: DiscoverySettings, { defaultConfig }: MeshConfig): InfrastructureSettings {
  const { gatewayImage, namespace, revision, clusterID } = settings;
  const host = `meshd${revisionSuffix(revision)}.${namespace}.svc`;
  return {
    image: gatewayImage === '' ? `ctl-agent:${buildInfo().version}` : gatewayImage,
    discoveryAddress: defaultConfig.discoveryAddress ?? `${host}:${SECURE_PORT}`,
    controlPlaneNamespace: namespace,
    clusterId: clusterID,
    rootConfigMap: ROOT_CONFIG_MAP,
  };
}
