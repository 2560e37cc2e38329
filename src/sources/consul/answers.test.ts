/** What is kept of the registry's answers, however long they are. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkOf, registrationOf, tagsSignature } from './answers.ts';

const LONG = 'x'.repeat(100_000);

function found(service: object, node: object = {}) {
  const Node = { Node: 'n', Address: '10.0.0.1', Datacenter: 'dc1', ...node };
  return registrationOf({ Node, Service: { ID: 'web-1', Port: 80, ...service }, Checks: [] });
}

test('of an instance, some kilobytes at most are kept: its labels, and the metadata that is read', () => {
  const tags = ['plain', LONG, `${LONG}|v`, 'app|web', `version|v1|${LONG}`];
  const meta = { other: LONG, protocol: LONG, external: 'x', 'service-account': 'web', ['k'.repeat(9999)]: 'v' };
  const registration = found({ Tags: tags, Meta: meta, Kind: LONG }, { Datacenter: LONG });
  assert.ok(typeof registration === 'object');
  assert.deepEqual(
    registration.tags.map((tag) => tag.slice(0, 12)),
    ['app|web', 'version|v1|x'],
  );
  assert.deepEqual([...registration.meta.keys()].toSorted(), ['external', 'protocol', 'service-account']);
  const kept = JSON.stringify([registration, ...registration.meta]);
  assert.ok(kept.length < 2000, `${kept.length} characters`);
});

test('an instance whose node, identifier or address is too long is told from what is no instance', () => {
  assert.equal(found({ ID: LONG }), 'too long');
  assert.equal(found({ Address: LONG }), 'too long');
  assert.equal(found({}, { Node: LONG }), 'too long');
  assert.equal(found({}, { Address: LONG }), 'too long');
  assert.equal(found({ ID: 7 }), undefined);
  assert.equal(checkOf({ Node: LONG, Status: 'critical' }), undefined);
  assert.equal(checkOf({ Node: 'n', ServiceID: LONG, Status: 'critical' }), undefined);
});

test('the signature of tags is short, whatever their order, and differs when they or the name do', () => {
  const signature = tagsSignature('web', [LONG, 'b']);
  assert.ok(signature.length < 64);
  assert.equal(tagsSignature('web', ['b', LONG]), signature);
  assert.notEqual(tagsSignature('web', ['b', `${LONG}x`]), signature);
  assert.notEqual(tagsSignature('Web', ['b', LONG]), signature);
});
