import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createListenerRefusals } from './listener-refusals.ts';

const refusal = (protocol: string, ...lines: readonly string[]) => ({
  text:
    `${protocol} config for type.googleapis.com/envoy.config.listener.v3.Listener rejected: ` +
    `Error adding/updating listener(s) ${lines.map((line) => `${line}\n`).join('')}`,
});

test('the listeners of a refused update are recorded by name with the latest reason', () => {
  const refusals = createListenerRefusals([]);
  refusals.see(refusal('delta', 'virtualInbound: ListenSocket: Setting socket options failed', '[::]_80: first'));
  refusals.see(refusal('gRPC', '[::]_80: cannot bind'));
  refusals.see({ text: 'gRPC config for type.googleapis.com/envoy.config.cluster.v3.Cluster rejected: x: y' });
  refusals.see({ text: "listener 'other' failed to bind" });
  assert.deepEqual(
    [...refusals.current()],
    [
      ['virtualInbound', 'ListenSocket: Setting socket options failed'],
      ['[::]_80', 'cannot bind'],
    ],
  );
  refusals.clear();
  assert.equal(refusals.current().size, 0);
});

test('the number of recorded refusals is limited, and needed listeners are always recorded', () => {
  const refusals = createListenerRefusals(['virtualInbound']);
  const lines = Array.from({ length: 1000 }, (_, index) => `${index}: ${'x'.repeat(10_000)}`);
  refusals.see(refusal('delta', ...lines, 'virtualInbound: why'));
  assert.ok(refusals.current().size <= 40);
  assert.equal(refusals.current().get('virtualInbound'), 'why');
  for (const words of refusals.current().values()) assert.ok(words.length <= 300);
});
