/**
 * Any interleaving of subscriptions, acknowledgements, rejections, changes, lost streams and restarts of the client
 * ends with the client having what the control plane last sent, and nothing is acknowledged that the client did not
 * acknowledge.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import { type Action, actions, World } from './testing/relay-world.ts';

for (const variant of ['delta', 'sotw'] as const) {
  test(`${variant}: a client always ends with what the control plane has`, () => {
    fc.assert(
      fc.property(fc.array(actions, { minLength: 20, maxLength: 150, size: 'max' }), (steps: readonly Action[]) => {
        const world = new World(variant);
        for (const step of steps) world.run(step);
        world.settle();
        assert.deepEqual(world.clientResources(), world.expectedResources());
        const [saved, accepted] = [world.snapshotResources(), world.clientResources()];
        if (variant === 'delta') assert.deepEqual(saved, accepted);
        // A control plane may miss that a name was removed and added again; then the snapshot waits for a change.
        else
          for (const [typeUrl, resources] of Object.entries(saved))
            for (const [name, value] of Object.entries(resources)) assert.equal(value, accepted[typeUrl]?.[name]);
      }),
      { numRuns: 2000 },
    );
  });
}
