import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { type FakeClock, fakeClock } from '../../core/testing/fake-clock.ts';
import { waitUntil } from '../../core/testing/wait-until.ts';
import { a, aaaa, startUpstream, type UpstreamQuery } from '../../dns/testing/upstream.ts';
import type { MeshUpdate } from '../../resources/index.ts';
import { GatewayHosts } from './gateway-hosts.ts';
import { MAX_ADDRESSES } from './host-addresses.ts';
import { type ResolveHost, resolveHost } from './resolve-host.ts';

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

/** A real name server on loopback, and a clock that a test moves; it stands still while names are looked up. */
async function start(t: TestContext, answer: (query: UpstreamQuery) => void): Promise<World> {
  const { port } = await startUpstream(t, answer);
  let running = 0;
  const resolve: ResolveHost = async (host, signal) => {
    running++;
    try {
      return await resolveHost(host, signal, [`127.0.0.1:${port}`]);
    } finally {
      running--;
    }
  };
  return startWith(t, resolve, fakeClock({ busy: () => running > 0 }));
}

function startWith(t: TestContext, resolve: ResolveHost, clock: FakeClock): World {
  const logged: string[] = [];
  const write = (message: string): void => void logged.push(message);
  const log = { debug: () => {}, info: write, warn: write, error: write };
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
  assert.match(
    logged.join(),
    /^mesh networks: host name gateway\.example cannot be resolved: .*; its last addresses stay in use$/,
  );
  assert.deepEqual(delivered, []);
  flags = NXDOMAIN;
  await until(() => delivered.length > 0);
  assert.deepEqual(delivered, [`${HOST}=`]);
});

test('a family that no server answers for keeps its last addresses beside new ones of the other', async (t) => {
  let [v4, v6Flags] = ['192.0.2.1', 0];
  const world = await start(t, (query) => {
    if (query.packet.questions?.[0]?.type === 'A') query.reply([a(HOST, v4)]);
    else query.reply(v6Flags === 0 ? [aaaa(HOST, '2001:db8::1')] : [], { flags: v6Flags });
  });
  const { hosts, logged, delivered, until } = world;
  hosts.published(published([HOST]));
  await hosts.first();
  assert.equal(textOf(hosts.take()), `${HOST}=192.0.2.1,2001:db8::1`);
  follow(world);
  [v4, v6Flags] = ['192.0.2.2', SERVFAIL];
  await until(() => delivered.length > 0);
  assert.deepEqual(delivered, [`${HOST}=192.0.2.2,2001:db8::1`]);
  assert.match(
    logged.join('\n'),
    /^mesh networks: host name \S+ is resolved in part: .*; the last addresses of this family stay in use$/,
  );
  v6Flags = NXDOMAIN;
  await until(() => delivered.length > 1);
  assert.equal(delivered[1], `${HOST}=192.0.2.2`);
  assert.equal(logged.at(-1), `mesh networks: host name ${HOST} is resolved completely again`);
});

test('addresses beyond the limit are reported once', async (t) => {
  let asked = 0;
  const { hosts, logged, until } = await start(t, (query) => {
    asked++;
    const all = Array.from({ length: MAX_ADDRESSES + 2 }, (_, index) => a(HOST, `192.0.2.${index + 1}`));
    query.reply(query.packet.questions?.[0]?.type === 'A' ? all : []);
  });
  hosts.published(published([HOST]));
  await hosts.first();
  assert.equal(hosts.take().resolvedHosts?.get(HOST)?.length, MAX_ADDRESSES);
  await until(() => asked > 4);
  assert.deepEqual(logged, [
    `mesh networks: host name ${HOST} has too many addresses: of ${MAX_ADDRESSES + 2} addresses, the first ${MAX_ADDRESSES} in order are used`,
  ]);
});

test('names that differ in a digit are reported each, and again after they were removed', async (t) => {
  const world = await start(t, (query) => query.reply([], { flags: SERVFAIL }));
  const { hosts, logged } = world;
  const lines = (host: string) => logged.filter((line) => line.includes(`${host} cannot be resolved`)).length;
  hosts.published(published(['gateway1.example', 'gateway2.example']));
  await hosts.first();
  assert.deepEqual([lines('gateway1.example'), lines('gateway2.example')], [1, 1]);
  hosts.published(published(['gateway1.example']));
  hosts.published(published(['gateway1.example', 'gateway2.example']));
  await waitUntil(() => lines('gateway2.example') === 2);
  assert.equal(lines('gateway1.example'), 1);
});

test('a lookup that hangs delays no other, and ends at its deadline', async (t) => {
  const signals = new Map<string, AbortSignal>();
  const clock = fakeClock();
  const resolve: ResolveHost = (host, signal) => {
    if (host === HOST) {
      const none = { addresses: [], ttlSeconds: undefined };
      return Promise.resolve({ ipv4: { addresses: ['192.0.2.1'], ttlSeconds: 3600 }, ipv6: none });
    }
    signals.set(host, signal);
    return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
  };
  const { hosts, logged } = startWith(t, resolve, clock);
  const dead = Array.from({ length: 6 }, (_, index) => `dead-${index}.example`);
  hosts.published(published([...dead, HOST]));
  const first = hosts.first();
  await waitUntil(() => signals.size === dead.length);
  await clock.advance(5000);
  await first;
  assert.equal(textOf(hosts.take()), `${HOST}=192.0.2.1`);
  assert.deepEqual(logged, []);
  hosts.published(published([HOST, ...dead.slice(1)]));
  assert.equal(signals.get('dead-0.example')?.aborted, true);
  await clock.advance(5000);
  await waitUntil(() => logged.length === dead.length - 1);
  assert.match(logged.join('\n'), /dead-1\.example cannot be resolved: no name server answered within 10 s/);
});

test('nothing is published after the end, and running lookups are cancelled', async (t) => {
  const world = await start(t, (query) => {
    if (query.name === HOST && query.packet.questions?.[0]?.type === 'A') query.reply([a(HOST, '192.0.2.1')]);
    // No answer for other names.
    else if (query.name === HOST) query.reply([]);
  });
  const { hosts, clock, delivered, logged } = world;
  follow(world);
  hosts.published(published([HOST, 'dead.example']));
  await waitUntil(() => clock.pending().length > 0);
  await hosts.close();
  hosts.published(published([]));
  clock.pass(60_000);
  assert.deepEqual([delivered, logged], [[], []]);
});

test('a name that is removed loses its addresses, so that it does not return with them', async (t) => {
  let address = '192.0.2.1';
  const world = await start(t, (query) =>
    query.reply(query.packet.questions?.[0]?.type === 'A' ? [a(query.name, address)] : []),
  );
  const { hosts, delivered, until } = world;
  hosts.published(published([HOST]));
  await hosts.first();
  hosts.take();
  follow(world);
  hosts.published(published([]));
  await until(() => delivered.length === 1);
  address = '192.0.2.2';
  hosts.published(published([HOST]));
  await until(() => delivered.length === 2);
  assert.deepEqual(delivered, ['', `${HOST}=192.0.2.2`]);
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
  assert.equal(logged.at(-1), 'mesh networks: no longer a problem: networks.far.gateways[0]: a problem');
});
