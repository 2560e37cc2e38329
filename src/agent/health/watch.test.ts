import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Logger } from '../../logging/index.ts';
import { watchReadiness } from './watch.ts';

/** Watches with one result of `check` for each second. Gives the log lines with their time, in seconds. */
async function watched(reasons: readonly (string | undefined)[], connected = '1', ends = new AbortController()) {
  const lines: string[] = [];
  let seconds = 0;
  const note = (message: string) => void lines.push(`${seconds}: ${message}`);
  const log = { info: note, warn: note } as unknown as Logger;
  const deps = {
    check: async () => reasons[Math.min(seconds, reasons.length - 1)],
    admin: async () => ({ text: `control_plane.connected_state: ${connected}\n` }),
    controlPlane: 'meshd:15012',
    now: () => seconds * 1000,
    sleep: async (ms: number) => {
      seconds += ms / 1000;
      if (seconds > 30) ends.abort();
    },
    log,
  };
  await watchReadiness(deps, ends.signal);
  return lines;
}

test('a proxy that becomes ready soon logs only that', async () => {
  assert.deepEqual(await watched(['Envoy is PRE_INITIALIZING', undefined]), ['1: the proxy is ready']);
});

test('a proxy that does not become ready logs each reason once', async () => {
  const waiting = Array.from({ length: 15 }, () => 'no clusters');
  assert.deepEqual(await watched([...waiting, 'no listeners', 'no listeners', undefined]), [
    '10: the proxy is not ready yet: no clusters',
    '15: the proxy is not ready yet: no listeners',
    '17: the proxy is ready',
  ]);
});

test('an unreachable control plane is named, and an agent that ends logs nothing more', async () => {
  const words =
    'the proxy is not ready yet: Envoy waits; the proxy has no connection to the control plane at meshd:15012';
  assert.deepEqual(await watched(['Envoy waits'], '0'), [`10: ${words}`]);
  const ended = new AbortController();
  ended.abort();
  assert.deepEqual(await watched([undefined], '1', ended), []);
});
