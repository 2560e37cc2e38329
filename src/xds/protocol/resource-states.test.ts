/** Which resources a proxy has acknowledged, as those who follow its stream see them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Content } from '../testing/content.ts';
import { DeltaPeer, filled, SotwPeer } from '../testing/machine.ts';
import { Subscription } from './subscription.ts';

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

test('the error of a proxy is taken once for all listeners that it rejects', (t) => {
  const content = filled();
  const peer = new DeltaPeer(content);
  const names = ['one', 'two', 'three'];
  for (const name of names) content.set('lds', name, '1');
  peer.ask('lds');
  peer.push();
  const error = `Error adding/updating listener(s) ${names.map((name) => `${name}: cannot bind`).join(', ')}`;
  peer.nack(error);
  const status = t.mock.method(Subscription.prototype, 'status');
  const states = peer.machine.states('lds', content.parts);
  assert.deepEqual(
    names.map((name) => states?.get(name)),
    names.map(() => ({ rejected: error })),
  );
  assert.equal(new Set(names.map((name) => states?.get(name))).size, 1);
  assert.equal(status.mock.callCount(), 0);
});

test('resources that are sent again to an overwhelmed proxy are outstanding', () => {
  const content = new Content();
  const names = Array.from({ length: 64 }, (_, index) => `l${String(index).padStart(2, '0')}`);
  content.setAll(
    'lds',
    names.map((name) => [name, '1']),
  );
  const peer = new DeltaPeer(content);
  const states = () => [...(peer.machine.states('lds', content.parts)?.values() ?? [])];
  peer.ask('lds');
  while (peer.push().length > 0) peer.nack('no good');
  assert.ok(states().some((state) => typeof state === 'object'));
  content.set('lds', 'l00', '2');
  peer.push();
  peer.ack();
  assert.ok(states().every((state) => state === 'outstanding'));
  assert.equal(peer.push().length, 1);
  peer.ack();
  assert.ok(states().every((state) => state === 'acknowledged'));
});

test('a proxy answers for each resource that it subscribes to, and an overwhelmed one rejects any', () => {
  const content = new Content();
  const names = ['a', 'b', 'c', 'd'];
  content.setAll(
    'rds',
    names.map((name) => [name, '1']),
  );
  const peer = new DeltaPeer(content);
  const answer = (name: string) => peer.machine.answerOf('rds', name, content.parts);
  assert.equal(answer('a'), 'unrequested');
  peer.ask('rds', { subscribe: ['a', 'b', 'c'] });
  peer.push();
  assert.deepEqual([answer('a'), answer('d'), answer('none')], ['outstanding', 'unrequested', 'unrequested']);
  peer.ack();
  assert.equal(answer('a'), 'accepted');
  // The proxy does not say which of two it rejects: each is tried alone.
  content.setAll('rds', [
    ['a', '2'],
    ['b', '2'],
  ]);
  peer.push();
  peer.nack('no good');
  assert.deepEqual([answer('a'), answer('c')], [{ rejected: 'no good', certain: false }, 'accepted']);
  peer.push();
  peer.nack('no good');
  peer.push();
  peer.ack();
  assert.deepEqual([answer('a'), answer('b')], [{ rejected: 'no good', certain: true }, 'accepted']);

  const other = new DeltaPeer(filled());
  const many = new Content();
  many.setAll(
    'lds',
    Array.from({ length: 64 }, (_, index) => [`l${index}`, '1'] as const),
  );
  const overwhelmed = new DeltaPeer(many);
  overwhelmed.ask('lds');
  while (overwhelmed.push().length > 0) overwhelmed.nack('no good');
  const rejected = { rejected: 'no good', certain: true };
  assert.deepEqual(overwhelmed.machine.answerOf('lds', '', many.parts), rejected);
  assert.equal(other.machine.answerOf('lds', '', many.parts), 'unrequested');
});
