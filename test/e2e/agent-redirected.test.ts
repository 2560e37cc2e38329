/**
 * `ctl-agent proxy` on machines whose traffic is redirected: when it becomes ready, and how it ends under load.
 */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { eventually, netnsUnavailable } from '../harness/index.ts';
import { resource } from './support/config.ts';
import {
  type IdentityWorld,
  PORTS,
  sharedService,
  startIdentityWorld,
  type Workload,
} from './support/identity-world.ts';
import { startLoad } from './support/load.ts';
import { lazy, suiteOwner } from './support/suite.ts';

const skip = (await netnsUnavailable()) ?? false;

interface Shared {
  readonly world: IdentityWorld;
  readonly client: Workload;
  readonly one: Workload;
  readonly two: Workload;
}

const owner = suiteOwner();
const shared = lazy<Shared>();
/** The service of both servers. */
const POOL = '10.96.1.1';

before(async () => {
  if (skip !== false) return;
  const strict = resource('PeerAuthentication', 'all', { mtls: { mode: 'STRICT' } }, 'mesh-system');
  const world = await startIdentityWorld(owner, { files: { policy: [strict] } });
  const [client, one, two] = await Promise.all(
    ['client', 'one', 'two'].map((name) => world.addWorkload({ name, namespace: 'foo', proxied: true })),
  );
  if (client === undefined || one === undefined || two === undefined) throw new Error('no workloads');
  const ports = [PORTS.http, PORTS.grpc].map(({ protocol, service, container }) => ({
    name: protocol,
    port: service,
    targetPort: container,
  }));
  await world.config.apply('pool', ...sharedService('pool', POOL, [one, two], ports));
  shared.set({ world, client, one, two });
});

/** Starts the agent of a workload whose agent has ended. */
function again(workload: Workload, drainSeconds: number) {
  const env = { TERMINATION_DRAIN_DURATION_SECONDS: String(drainSeconds) };
  return shared.get().world.startAgent(workload, { ...workload, env });
}

describe('redirected', { skip }, () => {
  test('an agent that ends loses no request, although nothing else informs its callers', async () => {
    const { client, one, two } = shared.get();
    await one.agent?.stop();
    // There are always requests in progress. The open connection of the load goes to the other server.
    const load = await startLoad(client, two, { address: POOL, loops: 16, delayMs: 50 });
    for (let run = 0; run < 3; run++) {
      const agent = await again(one, 2);
      const inbound = async () =>
        Number(/: (\d+)/.exec(await agent.admin('/stats?filter=^http.inbound.*rq_completed$'))?.[1] ?? 0);
      await eventually(async () => assert.ok((await inbound()) > 20, 'the server is not called yet'));
      agent.signal('SIGTERM');
      assert.deepEqual(await agent.exited, { code: 0, signal: null });
      await load.more(100);
    }
    await load.stop();
  });

  test('before it ends it accepts no new connections, while existing ones continue', async () => {
    const { world, client, one } = shared.get();
    const agent = await again(one, 10);
    const load = await startLoad(client, one, { address: POOL });
    agent.signal('SIGTERM');
    const connect = () => world.control.run('curl', '-sS', '--max-time', '2', `http://${one.netns.address}:8080/`);
    // curl's 7 is "connection refused". Until then a caller without a certificate gets as far as the handshake.
    await eventually(() => assert.rejects(connect(), { code: 7 }), { timeoutMs: 30_000 });
    assert.ok((await agent.envoyPid()) !== undefined);
    const { ticks } = load.report();
    await load.until('exchanges over the held connection', (now) => now.ticks >= ticks + 2, 30_000);
    assert.ok((await agent.envoyPid()) !== undefined);
    await load.stop();
    // This test does not need the rest of the drain.
    agent.signal('SIGTERM');
    assert.deepEqual(await agent.exited, { code: 0, signal: null });
  });

  test('an agent with another trust domain than the authority is refused, and both logs say so', async () => {
    const { world } = shared.get();
    const env = { TRUST_DOMAIN: 'other.example' };
    const { agent } = await world.addWorkload({
      name: 'other',
      namespace: 'foo',
      proxied: true,
      env,
      waitReady: false,
    });
    const words =
      'certificates are issued for trust domain cluster\\.local, but the workload is set to \\\\?"other\\.example';
    for (const output of [() => agent?.output() ?? '', world.discoveryOutput])
      await eventually(() => assert.match(output(), new RegExp(words)), { timeoutMs: 30_000 });
    assert.equal(await agent?.readiness(), 503);
    await agent?.stop();
  });

  test('an Envoy that may not open transparent sockets does not become ready, and the log says why', async () => {
    const { world } = shared.get();
    const env = { TERMINATION_DRAIN_DURATION_SECONDS: '900' };
    const options = { name: 'tproxy', namespace: 'foo', proxied: true, interception: 'TPROXY', env } as const;
    const { agent, ...workload } = await world.addWorkload({ ...options, transparent: false, waitReady: false });
    if (agent === undefined) throw new Error('no agent');
    const words =
      'Envoy has rejected the listener virtualInbound, which accepts redirected connections: \\S.* ' +
      '\\(interceptionMode TPROXY needs the capability NET_ADMIN for agent and Envoy\\)';
    await eventually(() => assert.match(agent.output(), new RegExp(`the proxy is not ready yet: ${words}`)), {
      timeoutMs: 40_000,
    });
    assert.equal(await agent.readiness(), 503);
    assert.doesNotMatch(agent.output(), /the proxy is ready/);
    // There are no connections: the agent does not wait for the drain time of a quarter of an hour.
    agent.signal('SIGTERM');
    assert.deepEqual(await agent.exited, { code: 0, signal: null });
    await world.startAgent(workload, { ...options, env: {} });
  });
});
