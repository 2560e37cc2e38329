/**
 * Runs the controller of the Gateway API where this replica leads: it writes the statuses that the translation computes
 * and deploys gateways. All replicas record what the proxies of Gateways acknowledge.
 */
import { randomUUID } from 'node:crypto';
import { buildInfo } from '../../core/build-info.ts';
import { systemClock } from '../../core/clock.ts';
import {
  AcknowledgedListeners,
  GatewayController,
  type InfrastructureSettings,
} from '../../gateway-controller/index.ts';
import { getScope } from '../../logging/index.ts';
import type { MeshConfig } from '../../resources/index.ts';
import { ROOT_CONFIG_MAP } from '../../security/index.ts';
import type { DiscoverySettings } from '../../settings/index.ts';
import type { WorkloadConnected } from '../../xds/index.ts';
import type { LeaderTask } from '../clusters/leadership.ts';
import { gatewayControllerName } from '../config/gateway-controller-name.ts';
import { revisionName, revisionSuffix } from '../process/revision.ts';
import { type ControllerInputs, runWhileLeading, statusOptions } from './leader-controller.ts';

const SECURE_PORT = 15_012;
/** Begins the keys of Gateways; `namespace/name` follows. */
const GATEWAY = 'KubernetesGateway/';

export interface GatewayInputs extends ControllerInputs {
  /** The version of the snapshot that proxies are served from. */
  readonly version: () => number;
}

export interface GatewayTask extends LeaderTask {
  /** Records what the proxy acknowledges, if it is the proxy of a Gateway. */
  readonly connected: WorkloadConnected;
  /** Follows the mesh configuration: it has the address of the control plane for proxies. */
  configure(mesh: MeshConfig): void;
}

/**
 * Starts to take part in the election; undefined when the Gateway API is not served. Called once everything has been
 * read: statuses that are computed from less would be wrong.
 */
export function runGatewayController(inputs: GatewayInputs): GatewayTask | undefined {
  const { settings, cluster, translation } = inputs;
  const translator = translation.gatewayApi;
  if (translator === undefined) return undefined;
  let current = infrastructure(settings, inputs.mesh);
  const options = statusOptions(inputs);
  const acknowledgements = new AcknowledgedListeners({
    ...options,
    clock: systemClock,
    random: Math.random,
    namespace: settings.namespace,
    revision: revisionName(settings.revision),
    identity: cluster.leadership.identity,
    id: randomUUID(),
    log: options.statusLog,
    version: inputs.version,
    listenersOf: (key) => translator.statuses().get(key)?.listeners,
  });
  const create = () =>
    new GatewayController({
      ...options,
      acknowledgements,
      controllerName: gatewayControllerName(settings),
      desired: () => translator.statuses(),
      isOfOtherRevision: (namespace, name) => translator.isOfOtherRevision(namespace, name),
      infrastructure: () => current,
      deployLog: getScope('orch'),
    });
  // Each Gateway belongs to one revision, which has a leader.
  const task = runWhileLeading(cluster.leadership, 'gateway-api', create);
  translation.onStatuses('gatewayApi', (keys) => {
    acknowledgements.changed([...keys].flatMap((key) => (key.startsWith(GATEWAY) ? key.slice(GATEWAY.length) : [])));
    task.changed(keys);
  });
  return {
    get isLeading() {
      return task.isLeading;
    },
    connected: (node, proxy) => acknowledgements.connected(node, proxy),
    async close() {
      await task.close();
      await acknowledgements.close();
    },
    configure(mesh) {
      const next = infrastructure(settings, mesh);
      if (next.discoveryAddress === current.discoveryAddress) return;
      current = next;
      task.running()?.infrastructureChanged();
    },
  };
}

function infrastructure(settings: DiscoverySettings, { defaultConfig }: MeshConfig): InfrastructureSettings {
  const { gatewayImage, gatewaySecretsRole: secretsRole, namespace, revision, clusterID } = settings;
  const host = `meshd${revisionSuffix(revision)}.${namespace}.svc`;
  return {
    image: gatewayImage === '' ? `ctl-agent:${buildInfo().version}` : gatewayImage,
    discoveryAddress: defaultConfig.discoveryAddress ?? `${host}:${SECURE_PORT}`,
    controlPlaneNamespace: namespace,
    clusterId: clusterID,
    rootConfigMap: ROOT_CONFIG_MAP,
    secretsRole,
  };
}
