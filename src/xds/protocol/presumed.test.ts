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

/** A proxy that reconnects with everything but clusters, which it requests later. */
function reconnectedWithoutClusters(): DeltaPeer {
  const other = new DeltaPeer(content);
  other.machine.needClusters();
  other.ask('eds', { subscribe: ['eds-web'], initial: content.versions('eds') });
  other.ask('rds', { subscribe: ['80'], initial: content.versions('rds') });
  content.set('cds', 'new', '1', ['eds-fresh']);
  content.set('eds', 'eds-fresh', '1');
  content.set('rds', '80', '2');
  return other;
}

test('routes wait for the first request for clusters of a proxy that reconnects', () => {
  const other = reconnectedWithoutClusters();
  const initial = new Map([['web', content.versions('cds').get('web') ?? '']]);
  assert.deepEqual(other.push(), []);
  assert.ok(other.machine.awaiting);
  other.ask('cds', { initial });
  assert.deepEqual(other.push(), ['cds in-web new']);
  other.ack();
  other.ask('eds', { subscribe: ['eds-fresh'] });
  assert.deepEqual(other.push(), ['eds eds-fresh', 'rds 80']);
});

test('routes wait no longer than for other requests', () => {
  const other = reconnectedWithoutClusters();
  other.machine.stopAwaiting();
  assert.deepEqual(other.push(), ['rds 80']);
});

test('a proxy that reconnects, and does not request clusters, is sent all before new routes', () => {
  const other = reconnectedWithoutClusters();
  other.machine.presumeClusters();
  assert.ok(other.machine.answersLate);
  assert.deepEqual(other.push(), ['cds in-web new web', 'eds eds-web']);
  const nonce = other.last[0]?.message.nonce ?? '';
  other.machine.presumeClusters();
  other.ask('eds', { subscribe: ['eds-fresh'] });
  for (const { type, message } of other.last) if (type !== 'cds') other.ask(type, { nonce: message.nonce });
  assert.deepEqual(other.push(), ['eds eds-fresh', 'rds 80']);
  other.ack();
  assert.ok(!other.machine.complete(content.parts), 'it has not acknowledged clusters');
  // What it has decides: it may have rejected some of them.
  const initial = content.versions('cds');
  initial.delete('new');
  other.ask('cds', { initial, nonce });
  assert.ok(!other.machine.answersLate);
  assert.deepEqual(other.push(), ['cds new', 'eds eds-fresh']);
  other.ack();
  assert.ok(other.machine.complete(content.parts));
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
