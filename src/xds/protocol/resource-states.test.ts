/** Which resources a proxy has acknowledged, as those who follow its stream see them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DeltaPeer, filled, SotwPeer } from '../testing/machine.ts';

const REJECTED = 'Error adding/updating listener(s) new: cannot bind';

for (const [variant, open] of [
  ['SotW', (content: ReturnType<typeof filled>) => new SotwPeer(content)],
  ['Delta', (content: ReturnType<typeof filled>) => new DeltaPeer(content)],
] as const)
  test(`${variant}: a listener is outstanding until the proxy acknowledges or rejects it`, () => {
    const content = filled();
    const peer = open(content);
    const states = () => Object.fromEntries(peer.machine.states('lds', content.parts) ?? [['not asked', '']]);
    assert.deepEqual(states(), { 'not asked': '' });
    peer.ask('lds');
    peer.push();
    assert.deepEqual(states(), { http: 'outstanding' });
    peer.ack();
    assert.deepEqual(states(), { http: 'acknowledged' });

    content.set('lds', 'new', '1');
    assert.deepEqual(states(), { http: 'acknowledged', new: 'outstanding' });
    peer.push();
    peer.nack(REJECTED);
    assert.deepEqual(states(), { http: 'acknowledged', new: { rejected: REJECTED } });
    content.set('lds', 'new', '2');
    assert.deepEqual(states(), { http: 'acknowledged', new: 'outstanding' });
    peer.push();
    peer.ack();
    assert.deepEqual(states(), { http: 'acknowledged', new: 'acknowledged' });
  });
