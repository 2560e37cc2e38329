/** The controller beside that of another revision, and what it reads beside documents: its settings, definitions. */
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import type { ScriptedApiServer } from '../kubernetes/testing/scripted-api-server.ts';
import type { DesiredStatus } from './index.ts';
import { API, CONTROLLER, define, GATEWAYS, ROUTES, SERVICES } from './testing/gateway-server.ts';
import {
  accepted,
  attached,
  closeAll,
  gateway,
  hasStatus,
  NS,
  type Started,
  startController,
  startServer,
  until,
} from './testing/running-controller.ts';

afterEach(closeAll);

/** Rounds in which leaders may still write what they have not seen. */
const MAX_ROUNDS = 10;

/** The image of a Gateway's Deployment. */
function imageOf(server: ScriptedApiServer, name: string): unknown {
  const spec = server.find('/apis/apps/v1/deployments', `${name}-meshd`, NS)?.spec;
  const { template } = (spec ?? {}) as { template?: { spec: { containers: readonly { image: string }[] } } };
  return template?.spec.containers[0]?.image;
}

test('leaders of two revisions write what belongs to their own Gateways, and then nothing', async () => {
  const { server, writes } = await startServer();
  for (const name of ['blue', 'green']) server.set(GATEWAYS, gateway(name));
  server.set(ROUTES, { metadata: { name: 'r', namespace: NS } });
  const parentOf = (name: string) => ({
    parentRef: { name },
    controllerName: CONTROLLER,
    conditions: [{ type: 'Accepted', status: 'True', reason: 'Accepted', message: name }],
  });
  const start = (own: string) => {
    const route: DesiredStatus = { ...attached('r'), status: { parents: [parentOf(own)] } };
    const options = { image: `ctl-agent:${own}`, isOfOtherRevision: (name: string) => name !== own };
    return startController(server, [accepted(own), route], options);
  };
  const [blue, green] = [start('blue'), start('green')];
  const parents = () => {
    const { parents: all = [] } = (server.find(ROUTES, 'r', NS)?.status ?? {}) as {
      parents?: { parentRef: unknown }[];
    };
    return all.map(({ parentRef }) => (parentRef as { name: string }).name).sort();
  };
  const isDone = () => parents().length === 2 && ['blue', 'green'].every((name) => imageOf(server, name) !== undefined);
  await until('both parents and both Gateways', isDone);
  const isReady = (name: string) =>
    JSON.stringify(server.find(GATEWAYS, name, NS)?.status ?? {}).includes('Programmed');
  await until('both statuses', () => isReady('blue') && isReady('green'));
  await until('both Services', () => ['blue', 'green'].every((name) => server.find(SERVICES, `${name}-meshd`, NS)));
  // Something else is written, after what the leaders would have to repair.
  const repaired = async (name: string): Promise<void> => {
    for (const each of [blue, green]) each.changed(`HTTPRoute/${NS}/r`, `KubernetesGateway/${NS}/blue`);
    server.set(ROUTES, { metadata: { name, namespace: NS } });
    blue.desired.set(`HTTPRoute/${NS}/${name}`, attached(name));
    blue.changed(`HTTPRoute/${NS}/${name}`);
    await until(`the status of ${name}`, () => hasStatus(server, name));
  };
  // Objects may be written twice while their first versions are not seen yet: then nothing else is written.
  let written: readonly string[] = [];
  for (let round = 1; round <= MAX_ROUNDS && written.length !== 1; round++) {
    const before = writes.length;
    await repaired(`round-${round}`);
    written = writes.slice(before).map(({ path }) => path);
  }
  assert.match(written.join(), new RegExp(`^${API}/namespaces/${NS}/httproutes/round-\\d+/status$`));
  assert.deepEqual([imageOf(server, 'blue'), imageOf(server, 'green')], ['ctl-agent:blue', 'ctl-agent:green']);
  assert.deepEqual(parents(), ['blue', 'green']);
  // Moved to the other revision: its leader deploys it with its own image, and this one removes nothing.
  green.desired.set(`KubernetesGateway/${NS}/blue`, accepted('blue'));
  blue.desired.delete(`KubernetesGateway/${NS}/blue`);
  for (const each of [blue, green]) each.changed(`KubernetesGateway/${NS}/blue`);
  await until('the other image', () => imageOf(server, 'blue') === 'ctl-agent:green');
});

test('Gateways get another address of the control plane as soon as it changes', async () => {
  const { server } = await startServer();
  server.set(GATEWAYS, gateway('web'));
  const settings: Started['settings'] = {};
  const { infrastructureChanged } = startController(server, [accepted('web')], { settings });
  const deployed = () => JSON.stringify(server.find('/apis/apps/v1/deployments', 'web-meshd', NS) ?? {});
  await until('the first address', () => deployed().includes('meshd.mesh-system.svc:15012'));
  settings.discoveryAddress = 'other.example:15012';
  infrastructureChanged();
  await until('the other address', () => deployed().includes('other.example:15012'));
});

test('a class says whether the versions of the definitions are supported', async () => {
  const { server } = await startServer();
  const gatewayClass: DesiredStatus = {
    kind: 'GatewayClass',
    namespace: '',
    name: 'meshd',
    generation: 4,
    status: { conditions: [{ type: 'Accepted', status: 'True', reason: 'Accepted', message: '' }] },
  };
  const { desired, changed } = startController(server, []);
  desired.set('GatewayClass//meshd', gatewayClass);
  const condition = () => {
    const status = server.find(`${API}/gatewayclasses`, 'meshd', '')?.status;
    const { conditions = [] } = (status ?? {}) as { conditions?: Record<string, unknown>[] };
    const found = conditions.find(({ type }) => type === 'SupportedVersion');
    return found && [found.status, found.reason, found.message, found.observedGeneration];
  };
  const prefix = 'versions of the CRDs:';
  const rows = [
    ['gateways', 'v1.2.0', ['False', 'UnsupportedVersion', `${prefix} none, v1.2.0; supported: v1.6`, 4]],
    ['gateways', 'v1.6.3', ['False', 'UnsupportedVersion', `${prefix} none, v1.6.3; supported: v1.6`, 4]],
    ['gatewayclasses', 'v1.6.3', ['False', 'UnsupportedVersion', `${prefix} none, v1.6.3; supported: v1.6`, 4]],
    ['httproutes', 'v1.6.3', ['True', 'SupportedVersion', `${prefix} v1.6.3; supported: v1.6`, 4]],
  ] as const;
  changed('GatewayClass//meshd');
  for (const [plural, version, expected] of rows) {
    define(server, plural, version);
    await until(JSON.stringify(expected), () => JSON.stringify(condition()) === JSON.stringify(expected));
  }
});
