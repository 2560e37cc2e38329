/**
 * Runs the controller of the Gateway API where this replica leads: it writes the statuses that the translation computes
 * and deploys gateways.
 */
import { buildInfo } from '../core/build-info.ts';
import { systemClock } from '../core/clock.ts';
import { GatewayController, type InfrastructureSettings } from '../gateway-controller/index.ts';
import { getScope } from '../logging/index.ts';
import type { MeshConfig } from '../resources/index.ts';
import { ROOT_CONFIG_MAP } from '../security/index.ts';
import type { DiscoverySettings } from '../settings/index.ts';
import { CONTROLLER_NAME } from '../translators/index.ts';
import type { Cluster } from './cluster.ts';
import { readNamespaces } from './intake.ts';
import type { LeaderTask } from './leadership.ts';
import { revisionSuffix } from './revision.ts';
import type { Translation } from './translation.ts';

const SECURE_PORT = 15_012;

export interface GatewayControllerInputs {
  readonly settings: DiscoverySettings;
  readonly cluster: Cluster;
  readonly translation: Translation;
  /** The mesh configuration at the start. */
  readonly mesh: MeshConfig;
}

/**
 * Starts to take part in the election; undefined when the Gateway API is not served. Called once everything has been
 * read: statuses that are computed from less would be wrong.
 */
export function runGatewayController(inputs: GatewayControllerInputs): LeaderTask | undefined {
  const { settings, cluster, translation, mesh } = inputs;
  const { client, leadership } = cluster;
  const translator = translation.gatewayApi;
  if (translator === undefined) return undefined;
  let running: GatewayController | undefined;
  translation.onStatuses((keys) => running?.changed([...keys]));
  const lead = async (signal: AbortSignal): Promise<void> => {
    const controller = new GatewayController({
      client,
      controllerName: CONTROLLER_NAME,
      namespaces: readNamespaces(settings, mesh),
      desired: () => translator.statuses(),
      infrastructure: () => infrastructure(settings, mesh),
      statusQps: settings.statusQps,
      statusBurst: settings.statusBurst,
      clock: systemClock,
      now: Date.now,
      random: Math.random,
      statusLog: getScope('status'),
      deployLog: getScope('orch'),
    });
    running = controller;
    controller.start();
    await new Promise<void>((resolve) => {
      if (signal.aborted) resolve();
      else signal.addEventListener('abort', () => resolve(), { once: true });
    });
    running = undefined;
    await controller.close();
  };
  // All revisions have one controller name, and so would write the same objects.
  return leadership.run('gateway-api', lead, { acrossRevisions: true });
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
