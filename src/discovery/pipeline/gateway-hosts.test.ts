import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { type FakeClock, fakeClock } from '../../core/testing/fake-clock.ts';
import { waitUntil } from '../../core/testing/wait-until.ts';
import { a, startUpstream, type UpstreamQuery } from '../../dns/testing/upstream.ts';
import type { MeshUpdate } from '../../resources/index.ts';
import { GatewayHosts } from './gateway-hosts.ts';
import { resolveHost } from './resolve-host.ts';

const HOST = 'gateway.example';
const SERVFAIL = 2;
const NXDOMAIN = 3;

interface World {
  readonly hosts: GatewayHosts;
  readonly clock: FakeClock;
  readonly logged: string[];
  /** What was delivered: `host=address,address`. */
  readonly delivered: string[];
  /** Moves the clock on until something comes true. */
  until(done: () => boolean): Promise<void>;
}

const textOf = ({ resolvedHosts = new Map() }: MeshUpdate): string =>
  [...resolvedHosts].map(([host, addresses]) => `${host}=${addresses.join()}`).join(' ');

/** A real name server on loopback, and a clock that a test moves. */
async function start(t: TestContext, answer: (query: UpstreamQuery) => void): Promise<World> {
  const { port } = await startUpstream(t, answer);
  const clock = fakeClock();
  const logged: string[] = [];
  const write = (message: string): void => void logged.push(message);
  const log = { debug: () => {}, info: write, warn: write, error: write };
  const resolve = (host: string) => resolveHost(host, [`127.0.0.1:${port}`]);
  const hosts = new GatewayHosts({ resolve, clock, random: () => 0, log });
  t.after(() => hosts.close());
  const delivered: string[] = [];
  const until = (done: () => boolean) => waitUntil(done, { step: () => clock.advance(1000) });
  return { hosts, clock, logged, delivered, until };
}

function follow({ hosts, delivered }: World): void {
  hosts.follow((update) => delivered.push(textOf(update)));
}

const published = (gatewayHosts: readonly string[], gatewayProblems: readonly string[] = []) => ({
  gatewayHosts,
  gatewayProblems,
});

test('the first answers are waited for, and later ones are delivered when they differ', async (t) => {
  let addresses = ['192.0.2.2', '192.0.2.1'];
  let asked = 0;
  const world = await start(t, (query) => {
    asked++;
    query.reply(query.packet.questions?.[0]?.type === 'A' ? addresses.map((each) => a(HOST, each)) : []);
  });
  const { hosts, delivered, until } = world;
  hosts.published(published([HOST]));
  await hosts.first();
  assert.equal(textOf(hosts.take()), `${HOST}=192.0.2.1,192.0.2.2`);
  assert.equal(hosts.take().resolvedHosts, undefined);
  follow(world);
  const before = asked;
  await until(() => asked > before + 3);
  assert.deepEqual(delivered, []);
  addresses = ['192.0.2.3'];
  await until(() => delivered.length > 0);
  assert.deepEqual(delivered, [`${HOST}=192.0.2.3`]);
});

test('an answer is used for its time to live, within limits', async (t) => {
  for (const [ttl, seconds] of [
    [1, 30],
    [120, 120],
    [100_000, 3600],
  ] as const) {
    const { hosts, clock } = await start(t, (query) =>
      query.reply(query.packet.questions?.[0]?.type === 'A' ? [a(HOST, '192.0.2.1', ttl)] : []),
    );
    hosts.published(published([HOST]));
    await hosts.first();
    await waitUntil(() => clock.pending().length > 0);
    assert.deepEqual(clock.pending(), [seconds * 1000]);
  }
});

test('the last addresses stay while no server answers, and go when the name does', async (t) => {
  let flags = 0;
  const world = await start(t, (query) => {
    const isAsked = query.packet.questions?.[0]?.type === 'A' && flags === 0;
    query.reply(isAsked ? [a(HOST, '192.0.2.1')] : [], { flags });
  });
  const { hosts, logged, delivered, until } = world;
  hosts.published(published([HOST]));
  await hosts.first();
  hosts.take();
  follow(world);
  flags = SERVFAIL;
  await until(() => logged.length > 0);
  assert.match(logged.join(), /host name gateway\.example cannot be resolved: .*; its last addresses stay in use/);
  assert.deepEqual(delivered, []);
  flags = NXDOMAIN;
  await until(() => delivered.length > 0);
  assert.deepEqual(delivered, [`${HOST}=`]);
});

test('names that no gateway has any more are not resolved, and problems are logged once', async (t) => {
  let asked = 0;
  const world = await start(t, (query) => {
    asked++;
    query.reply(query.packet.questions?.[0]?.type === 'A' ? [a(query.name, '192.0.2.1')] : []);
  });
  const { hosts, clock, logged } = world;
  const problems = ['networks.far.gateways[0]: a problem'];
  hosts.published(published([HOST], problems));
  await hosts.first();
  hosts.published(published([HOST], problems));
  assert.deepEqual(logged, ['mesh networks: networks.far.gateways[0]: a problem']);
  hosts.published(published(['other.example']));
  await waitUntil(() => asked === 4);
  for (let round = 0; round < 3; round++) await clock.advance(60_000);
  await waitUntil(() => asked > 4);
  assert.equal(textOf(hosts.take()), 'other.example=192.0.2.1');
  assert.equal(logged.at(-1), 'mesh networks: no longer: networks.far.gateways[0]: a problem');
});
