import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ACKNOWLEDGED_STATS, createReadiness } from './readiness.ts';

/** An admin interface that a test changes; time passes by itself, so that nothing is answered from memory. */
function envoy() {
  const state = { ready: 200, text: 'LIVE\n', stats: '', asked: [] as string[], time: 0, step: 1000 };
  const readiness = createReadiness({
    async admin(path) {
      state.asked.push(path);
      return path === '/ready' ? { status: state.ready, text: state.text } : { status: 200, text: state.stats };
    },
    now: () => {
      state.time += state.step;
      return state.time;
    },
  });
  return { state, readiness };
}

const BOTH = 'cluster_manager.cds.update_success: 1\nlistener_manager.lds.update_success: 1\n';

test('ready needs LIVE, clusters and listeners; then only LIVE is asked', async () => {
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

test('what an Envoy has acknowledged does not count for the next one', async () => {
  const { state, readiness } = envoy();
  state.stats = BOTH;
  assert.equal(await readiness.check(), undefined);
  readiness.restarted();
  state.stats = '';
  assert.equal(await readiness.check(), 'no clusters have been acknowledged yet');
  assert.equal(state.asked.at(-1), ACKNOWLEDGED_STATS);
});

test('probes that come together are one question', async () => {
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
  const silent = createReadiness({ admin: () => Promise.reject(new Error('no answer within 800 ms')), now: () => 0 });
  assert.equal(await silent.check(), 'Envoy does not answer: no answer within 800 ms');
  const { state, readiness } = envoy();
  state.stats = BOTH;
  const asked = readiness.check();
  readiness.draining();
  assert.equal(await asked, 'draining');
  assert.equal(await readiness.check(), 'draining');
});
