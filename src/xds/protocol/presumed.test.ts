/** Clusters that a proxy has not answered and that count as accepted: what follows them, and late answers. */
import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import type { Content } from '../testing/content.ts';
import { DeltaPeer, filled } from '../testing/machine.ts';

let content: Content;
let peer: DeltaPeer;

beforeEach(() => {
  content = filled();
  peer = DeltaPeer.current(content);
});

/** Sends a new cluster, which the proxy does not answer. @returns the nonce */
function unanswered(name: string): string {
  content.set('cds', name, '1');
  assert.deepEqual(peer.push(), [`cds ${name}`]);
  const [sent] = peer.last;
  assert.ok(sent);
  return sent.message.nonce;
}

test('while a proxy does not answer clusters it gets others, with their endpoints before their routes', () => {
  const first = unanswered('slow');
  content.set('cds', 'new', '1', ['eds-fresh']);
  content.set('eds', 'eds-fresh', '1');
  content.set('rds', '80', '2');
  assert.deepEqual(peer.push(), [], 'it may still answer');
  peer.machine.presumeClusters();
  assert.deepEqual(peer.push(), ['cds new']);
  const second = peer.last[0]?.message.nonce;
  peer.machine.presumeClusters();
  assert.deepEqual(peer.push(), [], 'it has not asked for the endpoints yet');
  peer.ask('eds', { subscribe: ['eds-fresh'] });
  assert.deepEqual(peer.push(), ['eds eds-fresh', 'rds 80']);
  peer.ack();
  assert.ok(peer.machine.answersLate);
  assert.ok(!peer.machine.complete(content.parts), 'it has not acknowledged everything');
  for (const nonce of [first, second]) assert.equal(peer.ask('cds', { nonce: nonce ?? '' }).kind, 'ack');
  assert.ok(!peer.machine.answersLate);
  assert.ok(peer.machine.complete(content.parts));
  assert.deepEqual(peer.push(), []);
});

test('clusters that are rejected late are sent again, and the one with the fault is kept back', () => {
  const first = unanswered('slow');
  peer.machine.presumeClusters();
  const second = unanswered('bad');
  assert.equal(peer.ask('cds', { nonce: first }).kind, 'ack');
  peer.machine.presumeClusters();
  const answer = peer.ask('cds', { nonce: second, error: 'Error adding/updating cluster(s) bad: no' });
  assert.deepEqual([answer.kind, answer.changed.map(({ name }) => name)], ['nack', ['bad']]);
  assert.deepEqual(peer.push(), ['cds bad']);
  assert.deepEqual(peer.nack('Error adding/updating cluster(s) bad: no')?.quarantined, ['bad']);
  assert.deepEqual(peer.push(), []);
  assert.ok(peer.machine.complete(content.parts));
});

test('a rejection of an earlier response does not concern the outstanding one', () => {
  const first = unanswered('bad');
  peer.machine.presumeClusters();
  const second = unanswered('good');
  assert.equal(peer.ask('cds', { nonce: first, error: 'no' }).kind, 'nack');
  assert.equal(peer.ask('cds', { nonce: second }).kind, 'ack');
  assert.deepEqual(peer.push(), ['cds bad']);
  peer.ack();
  assert.deepEqual(peer.push(), []);
  assert.ok(peer.machine.complete(content.parts));
});

test('a proxy that answers nothing gets a limited number of responses', () => {
  let sent = 0;
  for (let round = 0; round < 300; round++) {
    content.set('cds', `cluster-${round}`, '1');
    peer.machine.presumeClusters();
    sent += peer.push().length;
  }
  assert.ok(sent > 50 && sent < 150, String(sent));
});
