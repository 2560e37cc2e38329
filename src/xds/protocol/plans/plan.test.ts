import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as fc from '../../../core/testing/properties.ts';
import type { Bundle } from '../../../push/types.ts';
import { Content } from '../../testing/content.ts';
import { SHARED } from '../../testing/protocols.ts';
import { type ClientState, NO_EXCEPTIONS } from '../client-state.ts';
import type { Interest } from '../interest.ts';
import { NO_NAMES } from '../name-set.ts';
import type { Plan } from './plan.ts';
import { REMOVE_ALL, REMOVE_NONE } from './removal-policy.ts';

const { names: sets, plans, versions } = SHARED;

const NAMES = ['a', 'b', 'c', 'in-1', 'in-2'];

/** What a plan does. */
function story({ changed, removed, next, shared = [] }: Plan) {
  return {
    changed: changed.flat(),
    length: changed.length,
    removed,
    bases: next.bases,
    overlay: next.overlay,
    delta: Buffer.concat(shared.flatMap((selection) => selection.body('delta'))),
    sotw: Buffer.concat(shared.flatMap((selection) => selection.body('sotw'))),
  };
}

describe('the plan of a step in which one part changes', () => {
  const name = fc.constantFrom(...NAMES);
  const edit = fc.tuple(name, fc.constantFrom('1', '2', '3', undefined));
  const interest = fc.oneof(
    fc.constant<Interest>({ wildcard: true, names: NO_NAMES }),
    fc.uniqueArray(name, { minLength: 1 }).map((names): Interest => ({ wildcard: false, names: sets.of(names) })),
  );

  it('is the same as the general plan, computed or remembered', () => {
    fc.assert(
      fc.property(fc.array(edit, { maxLength: 12 }), fc.array(interest, { maxLength: 4 }), (edits, interests) => {
        const content = new Content();
        const states: (readonly Bundle[])[] = [content.parts.eds];
        for (const [of, text] of edits) {
          content.set('eds', of, text);
          states.push(content.parts.eds);
        }
        for (const bases of states)
          for (const parts of states)
            for (const each of interests) {
              const state: ClientState = { bases, overlay: NO_EXCEPTIONS };
              const first = plans.step(state, each, parts);
              // Another proxy in the same state.
              const again = plans.step({ bases: [...bases], overlay: NO_EXCEPTIONS }, { ...each }, [...parts]);
              assert.equal(first, again);
              for (const removes of [REMOVE_ALL, REMOVE_NONE])
                if (first !== undefined)
                  assert.deepEqual(story(first), story(plans.whole(state, each, parts, removes, false)));
            }
      }),
      { numRuns: 100 },
    );
  });

  it('has a version that depends on its content alone', () => {
    fc.assert(
      fc.property(fc.array(edit, { maxLength: 12 }), fc.array(interest, { maxLength: 4 }), (edits, interests) => {
        const content = new Content();
        let before: ClientState = { bases: content.parts.eds, overlay: NO_EXCEPTIONS };
        for (const [of, text] of edits) {
          content.set('eds', of, text);
          const state: ClientState = { bases: content.parts.eds, overlay: NO_EXCEPTIONS };
          for (const each of interests) {
            const afresh: ClientState = { bases: [...state.bases], overlay: NO_EXCEPTIONS };
            assert.equal(versions.of(state, each, before), versions.of(afresh, { ...each }, before));
            assert.equal(versions.of(state, each, before), versions.of(state, { ...each }, afresh));
          }
          before = state;
        }
      }),
      { numRuns: 100 },
    );
  });
});
