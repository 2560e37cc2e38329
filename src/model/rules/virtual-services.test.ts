import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import { keyOf, type ResourceChange } from '../../resources/kinds/types.ts';
import { emptyMesh, resource } from '../testing/build.ts';
import { applyChanges } from '../testing/steps.ts';
import type { Snapshot } from '../types/types.ts';

const namesOf = (snapshot: Snapshot) =>
  snapshot.gatewayScope('ns').egress.flatMap(({ virtualServices }) => virtualServices.map(({ key }) => key));

test('property: changes applied at once give the same order as applied one by one', () => {
  const change = fc.record({
    name: fc.constantFrom(...'abcdefghijklmnop'),
    namespace: fc.constantFrom('ns', 'other'),
    host: fc.constantFrom('x', 'y'),
    created: fc.constantFrom(1, 2, 3),
    removed: fc.boolean(),
  });
  const batch = fc.uniqueArray(change, { maxLength: 30, selector: ({ name, namespace }) => `${namespace}/${name}` });
  fc.assert(
    fc.property(fc.array(batch, { maxLength: 4 }), (batches) => {
      let atOnce = emptyMesh();
      let oneByOne = emptyMesh();
      for (const each of batches) {
        const changes = each.map(({ name, namespace, host, created, removed }): ResourceChange => {
          const route = [{ destination: { host } }];
          const made = resource(
            'VirtualService',
            `${namespace}/${name}`,
            { hosts: [host], http: [{ route }] },
            { created },
          );
          return { key: keyOf(made), before: undefined, after: removed ? undefined : made };
        });
        atOnce = applyChanges(atOnce, { changes }).snapshot;
        for (const single of changes) oneByOne = applyChanges(oneByOne, { changes: [single] }).snapshot;
      }
      assert.deepEqual(namesOf(atOnce), namesOf(oneByOne));
    }),
    { numRuns: 150 },
  );
});
