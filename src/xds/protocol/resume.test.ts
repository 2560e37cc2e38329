/** What a reconnecting proxy needs, against a simple comparison. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import { Content } from '../testing/content.ts';
import { SHARED } from '../testing/protocols.ts';
import { findResource } from './client-state.ts';

const name = fc.constantFrom('a', 'b', 'c', 'd', 'in-1', 'in-2', 'in-3', 'in-4');
const text = fc.constantFrom('1', '2');
const entries = fc.uniqueArray(fc.tuple(name, text), { selector: ([key]) => key });

describe('a reconnecting proxy', () => {
  it('needs what differs from any of its parts, whether this is computed or remembered', () => {
    fc.assert(
      fc.property(entries, entries, fc.uniqueArray(name), (content, shown, wanted) => {
        const mesh = new Content();
        mesh.setAll('cds', content);
        const parts = mesh.partsOf('cds');
        const names = SHARED.names.of(wanted);
        const known = new Map<string, string>(shown.map(([key, value]) => [key, `v:${value}`]));
        for (let round = 0; round < 2; round++) {
          const overlay = SHARED.comparisons.differences(known, parts);
          for (const key of new Set([...known.keys(), ...mesh.versions('cds').keys()])) {
            const same = known.get(key) === mesh.versions('cds').get(key);
            assert.equal(overlay.has(key), !same, key);
            assert.equal(overlay.get(key)?.version, same ? undefined : known.get(key), key);
          }
          const expected = wanted.filter((key) => {
            const current = findResource(parts, key);
            return current === undefined || current.version !== known.get(key);
          });
          assert.deepEqual([...SHARED.comparisons.outdated(names, known, parts)].sort(), expected.sort());
        }
      }),
    );
  });
});
