import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PMap } from '../../core/pmap.ts';
import * as fc from '../../core/testing/properties.ts';
import { keyOf } from '../../resources/kinds/types.ts';
import { history, QUESTIONS } from '../testing/arbitrary.ts';
import { emptyMesh, fqdn, meshOf, resource, service } from '../testing/build.ts';
import { applyChanges } from '../testing/steps.ts';
import type { Snapshot } from '../types/types.ts';
import { findDestinationRule, type RuleTable, updateRules } from './destination-rules.ts';

const [OWN, OTHER] = [service('a/x'), service('b/x')];
const rule = (path: string, host: string, content: object = {}) =>
  resource('DestinationRule', path, { host, ...content });

/** The finder of the default scope of a namespace. */
const finder = (snapshot: ReturnType<typeof meshOf>, namespace: string) =>
  snapshot.scopeOf(namespace, {}).destinationRule;

/** All rules of a snapshot, as a separate table. */
function rulesOf(snapshot: Snapshot): RuleTable {
  const rules = [...snapshot.resources('DestinationRule').entries()];
  const added = new Map(rules.map(([key, after]) => [key, { before: undefined, after }]));
  return updateRules(PMap.empty(), added, snapshot).table;
}

test('a shared finder returns the rules that each namespace sees', () => {
  let shared = 0;
  fc.assert(
    fc.property(history, (batches) => {
      let snapshot = emptyMesh();
      for (const batch of batches) {
        const changes = batch.map(({ resource: after, remove }) => ({
          key: keyOf(after),
          before: undefined,
          after: remove ? undefined : after,
        }));
        snapshot = applyChanges(snapshot, { changes }).snapshot;
        const { settings } = snapshot;
        const rules = rulesOf(snapshot);
        const finders = new Set();
        for (const { namespace, labels } of QUESTIONS.proxies) {
          const scope = snapshot.scopeOf(namespace, labels);
          finders.add(scope.destinationRule);
          for (const [host, of] of scope.services.sorted()) {
            const expected = findDestinationRule(snapshot.memos, rules, settings.rootNamespace, namespace, of);
            assert.deepEqual(scope.destinationRule(host), expected, `${host} from ${namespace}`);
          }
        }
        if (rules.size > 0 && finders.size < QUESTIONS.proxies.length / 2) shared++;
      }
    }),
    { numRuns: 150 },
  );
  assert.ok(shared > 10);
});

test('namespaces share a finder if their rules are public and only about their own services', () => {
  const snapshot = meshOf([OWN, OTHER, rule('a/r', fqdn('x.a')), rule('b/r', fqdn('x.b'))]);
  assert.equal(finder(snapshot, 'a'), finder(snapshot, 'b'));
  assert.equal(finder(snapshot, 'a'), finder(snapshot, 'c'));
});

for (const [what, own] of [
  ['is about a service of another namespace', rule('a/r', fqdn('x.b'))],
  ['is about many hosts', rule('a/r', `*.${fqdn('a')}`)],
  ['is hidden from others', rule('a/r', fqdn('x.a'), { exportTo: ['.'] })],
  ['is exported to the namespace by name', rule('b/r', fqdn('x.b'), { exportTo: ['a'] })],
] as const) {
  test(`a rule that ${what} gives the namespace a finder of its own`, () => {
    const snapshot = meshOf([OWN, OTHER, own]);
    assert.notEqual(finder(snapshot, 'a'), finder(snapshot, 'c'));
  });
}
