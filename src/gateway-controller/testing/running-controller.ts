/** The controller of the Gateway API with a scripted API server, both closed by `closeAll` after each test. */
import type { Clock } from '../../core/clock.ts';
import { TokenBucket } from '../../core/fairness/token-bucket.ts';
import { waitUntil } from '../../core/testing/wait-until.ts';
import { Connection, KubernetesClient } from '../../kubernetes/index.ts';
import { fastClock } from '../../kubernetes/testing/fast-clock.ts';
import type { Listed, ScriptedApiServer } from '../../kubernetes/testing/scripted-api-server.ts';
import { type DesiredStatus, GatewayController } from '../index.ts';
import { CONTROLLER, ROUTES, startGatewayServer } from './gateway-server.ts';

export const NS = 'edge';
/** Time passes this many times as fast. */
export const SPEED = 100;

/** Called by `closeAll`, the last first. */
export const cleanup: (() => Promise<void> | void)[] = [];

/** For `afterEach` of each file: a hook of this module would be one of the first file of a process only. */
export async function closeAll(): Promise<void> {
  for (const close of cleanup.splice(0).reverse()) await close();
}

export const until = (what: string, holds: () => boolean): Promise<void> => waitUntil(holds, { what: () => what });

export async function startServer() {
  const started = await startGatewayServer();
  cleanup.push(() => started.server.stop());
  return started;
}

export interface Started {
  readonly namespaces: readonly string[];
  readonly image: string;
  readonly secretsRole: string;
  readonly isOfOtherRevision: (gateway: string) => boolean;
  readonly settings: { discoveryAddress?: string };
  readonly clock: Clock;
}

export function startController(
  server: ScriptedApiServer,
  statuses: readonly DesiredStatus[],
  options: Partial<Started> = {},
) {
  const { namespaces = [], image = 'ctl-agent:1', isOfOtherRevision = () => false, settings = {} } = options;
  const { clock = fastClock(SPEED) } = options;
  const connection = new Connection({ access: server.access(), clock, random: () => 0, userAgent: 'test' });
  const desired = new Map(statuses.map((each) => [`${each.kind}/${NS}/${each.name}`, each]));
  const lines: string[] = [];
  const write = (message: string) => void lines.push(message);
  const log = { debug: () => {}, info: write, warn: write, error: write };
  const controller = new GatewayController({
    client: new KubernetesClient(connection),
    controllerName: CONTROLLER,
    namespaces,
    desired: () => desired,
    isOfOtherRevision: (_, name) => isOfOtherRevision(name),
    acknowledgements: { of: () => [], follow: () => async () => {} },
    infrastructure: () => ({
      image,
      discoveryAddress: settings.discoveryAddress ?? 'meshd.mesh-system.svc:15012',
      controlPlaneNamespace: 'mesh-system',
      clusterId: 'Orchestrator',
      rootConfigMap: 'roots',
      secretsRole: options.secretsRole ?? '',
    }),
    statusBudget: new TokenBucket({ rate: 100, burst: 500, now: () => performance.now() }),
    now: Date.now,
    statusLog: log,
    deployLog: log,
  });
  controller.start();
  let closed: Promise<void> | undefined;
  const close = () => {
    closed ??= controller.close().then(() => connection.close());
    return closed;
  };
  cleanup.push(close);
  const infrastructureChanged = () => controller.infrastructureChanged();
  return { lines, desired, changed: (...keys: string[]) => controller.changed(keys), infrastructureChanged, close };
}

export const attached = (name: string): DesiredStatus => ({
  kind: 'HTTPRoute',
  namespace: NS,
  name,
  status: {
    parents: [
      {
        parentRef: { name: 'web' },
        controllerName: CONTROLLER,
        conditions: [{ type: 'Accepted', status: 'True', reason: 'Accepted', message: '' }],
      },
    ],
  },
});

export const accepted = (name: string): DesiredStatus => ({
  kind: 'KubernetesGateway',
  namespace: NS,
  name,
  status: {
    conditions: ['Accepted', 'Programmed'].map((type) => ({ type, status: 'True', reason: type, message: '' })),
    listeners: [],
  },
});

export const gateway = (name: string): Listed => ({
  metadata: { name, namespace: NS },
  spec: { gatewayClassName: 'meshd', listeners: [{ name: 'http', port: 80, protocol: 'HTTP' }] },
});

/** A Pod of a Gateway, with this status; default: ready. */
export const podOf = (name: string, status: object = { conditions: [{ type: 'Ready', status: 'True' }] }): Listed => ({
  metadata: { name: `${name}-pod`, namespace: NS, labels: { 'gateway.networking.k8s.io/gateway-name': name } },
  spec: { serviceAccountName: `${name}-meshd` },
  status,
});

export const hasStatus = (server: ScriptedApiServer, name: string) =>
  JSON.stringify(server.find(ROUTES, name, NS)?.status ?? {}).includes(CONTROLLER);
