import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ACKNOWLEDGED_STATS, createReadiness } from './readiness.ts';

/** An admin interface that a test controls; time passes between calls, so that nothing is answered from the cache. */
function envoy(needed: readonly string[] = []) {
  const asked: string[] = [];
  const state = {
    ready: 200,
    text: 'LIVE\n',
    stats: '',
    dump: '{}',
    others: undefined as string | undefined,
    awaited: undefined as string | undefined,
    asked,
    time: 0,
    step: 1000,
  };
  const refused = new Map<string, string>();
  const readiness = createReadiness({
    async admin(path) {
      state.asked.push(path);
      if (path === '/ready') return { status: state.ready, text: state.text };
      return { status: 200, text: path.startsWith('/config_dump') ? state.dump : state.stats };
    },
    needed,
    requirement: needed.length === 0 ? '' : 'it needs NET_ADMIN',
    refused: () => refused,
    others: () => state.others,
    awaited: () => state.awaited,
    now: () => {
      state.time += state.step;
      return state.time;
    },
  });
  return { state, readiness, refused };
}

const BOTH = 'cluster_manager.cds.update_success: 1\nlistener_manager.lds.update_success: 1\n';

test('readiness requires LIVE, clusters and listeners, and from then on only LIVE', async () => {
  const { state, readiness } = envoy();
  Object.assign(state, { ready: 503, text: 'PRE_INITIALIZING\n' });
  assert.equal(await readiness.check(), 'Envoy is PRE_INITIALIZING');
  state.ready = 200;
  assert.equal(await readiness.check(), 'no clusters have been acknowledged yet');
  state.stats = 'cluster_manager.cds.update_success: 1\nlistener_manager.lds.update_success: 0\n';
  assert.equal(await readiness.check(), 'no listeners have been acknowledged yet');
  state.stats = BOTH;
  assert.equal(await readiness.check(), undefined);
  state.asked = [];
  assert.equal(await readiness.check(), undefined);
  assert.deepEqual(state.asked, ['/ready']);
  state.ready = 503;
  assert.match((await readiness.check()) ?? '', /^Envoy is/);
});

test('readiness requires the other parts of the agent', async () => {
  const { state, readiness } = envoy();
  Object.assign(state, { stats: BOTH, others: 'the DNS server does not listen yet' });
  assert.equal(await readiness.check(), 'the DNS server does not listen yet');
  state.others = undefined;
  assert.equal(await readiness.check(), undefined);
});

test('the reason says what Envoy waits for, and is empty when Envoy is ready', async () => {
  const { state, readiness } = envoy();
  state.awaited = 'the workload has no certificate';
  assert.equal(await readiness.check(), 'the workload has no certificate (no clusters have been acknowledged yet)');
  state.stats = BOTH;
  assert.equal(await readiness.check(), undefined);
});

test('acknowledgements of an Envoy do not count for the next one', async () => {
  const { state, readiness } = envoy();
  state.stats = BOTH;
  assert.equal(await readiness.check(), undefined);
  readiness.restarted();
  state.stats = '';
  assert.equal(await readiness.check(), 'no clusters have been acknowledged yet');
  assert.equal(state.asked.at(-1), ACKNOWLEDGED_STATS);
});

test('concurrent probes cause one request', async () => {
  const { state, readiness } = envoy();
  Object.assign(state, { stats: BOTH, step: 1 });
  assert.deepEqual(await Promise.all([readiness.check(), readiness.check(), readiness.check()]), [
    undefined,
    undefined,
    undefined,
  ]);
  assert.equal(state.asked.length, 2);
});

test('an Envoy that does not answer and an agent that drains are not ready', async () => {
  const silent = createReadiness({
    admin: () => Promise.reject(new Error('no response within 800 ms')),
    needed: [],
    requirement: '',
    refused: () => new Map(),
    others: () => undefined,
    awaited: () => undefined,
    now: () => 0,
  });
  assert.equal(await silent.check(), 'Envoy does not respond: no response within 800 ms');
  assert.equal(await silent.hasServed(), false);
  const { state, readiness } = envoy();
  state.stats = BOTH;
  const asked = readiness.check();
  readiness.draining();
  assert.equal(await asked, 'draining');
  assert.equal(await readiness.check(), 'draining');
});

/** A dump as of `/config_dump` with the mask of readiness. */
function dump(states: Readonly<Record<string, 'active' | 'warming'>>): string {
  const version = { version_info: '1' };
  return JSON.stringify({
    configs: Object.entries(states).map(([name, state]) => ({ name, [`${state}_state`]: version })),
  });
}

test('listeners of redirected connections must exist and be warm, and the reason names refused ones', async () => {
  const { state, readiness, refused } = envoy(['virtualInbound', 'virtualOutbound']);
  state.stats = BOTH;
  const absent = 'the listener virtualInbound, which accepts redirected connections, is missing';
  assert.equal(await readiness.check(), absent);
  state.dump = dump({ virtualInbound: 'warming' });
  assert.equal(await readiness.check(), 'the listener virtualInbound is warming');
  state.dump = dump({ virtualInbound: 'active' });
  refused.set('virtualOutbound', 'ListenSocket: Setting socket options failed');
  assert.equal(
    await readiness.check(),
    'Envoy has rejected the listener virtualOutbound, which accepts redirected connections: ' +
      'ListenSocket: Setting socket options failed (it needs NET_ADMIN)',
  );
  assert.equal(await readiness.hasServed(), false);
  state.dump = dump({ virtualInbound: 'active', virtualOutbound: 'active' });
  assert.equal(await readiness.check(), undefined);
  assert.equal(await readiness.hasServed(), true);
});

test('without redirection refused listeners do not affect readiness, unless none is left', async () => {
  const { state, readiness, refused } = envoy();
  const words = 'cannot bind [::1]:443: Permission denied';
  refused.set('[::1]_443', words);
  const stats = BOTH.replace(/lds.update_success: 1/, 'lds.update_success: 0');
  state.stats = `${stats}listener_manager.lds.update_rejected: 2\n`;
  assert.equal(await readiness.check(), `Envoy has rejected its listeners: [::1]_443: ${words}`);
  state.stats = `${BOTH}listener_manager.lds.update_rejected: 2\n`;
  assert.equal(await readiness.check(), `Envoy has rejected its listeners: [::1]_443: ${words}`);
  refused.clear();
  assert.match((await readiness.check()) ?? '', /its log has the reason if --proxyLogLevel is warning or more verbose/);
  state.dump = dump({ '0.0.0.0_80': 'active' });
  assert.equal(await readiness.check(), undefined);
});
