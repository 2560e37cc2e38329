/**
 * Shared by the test files about tokens: each gets its own mesh, without policies at the start of a test, and the
 * table.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before } from 'node:test';
import type { Document } from './config.ts';
import { bearer, curl, JwtTable, outcomeOf, type Row } from './jwt-calls.ts';
import { type JwtWorld, ONE, type Place, routes, type Site, startJwtWorld, THREE, TWO } from './jwt-world.ts';
import { lazy, suiteOwner } from './suite.ts';
import { eventuallyAll } from './traffic.ts';

export interface JwtSuite {
  world(): JwtWorld;
  /** The rules of the three issuers. */
  rules(): { readonly one: Document; readonly two: Document; readonly three: Document };
  sitesOf(place: Place): readonly Site[];
  /** Waits until the rows have their outcome at all sites, or at those of one place, and records them. */
  check(policy: string, rows: readonly Row[], place?: Place): Promise<void>;
}

/** To be called once in a file, outside of its tests. */
export function jwtSuite(): JwtSuite {
  const owner = suiteOwner();
  const held = lazy<JwtWorld>();
  const table = new JwtTable();
  before(async () => void held.set(await startJwtWorld(owner)));
  afterEach(async () => {
    const { config, sites } = held.get();
    await config.apply('routes', routes());
    for (const name of ['tokens', 'access', 'more']) await config.remove(name).catch(() => undefined);
    // Tokens are ignored again.
    await eventuallyAll(sites, async (site) =>
      assert.equal(outcomeOf(await curl(site, { headers: [bearer('token')] })), '200'),
    );
  });
  after(() => table.print());
  const sitesOf = (place: Place) => held.get().sites.filter((site) => site.place === place);
  return {
    world: held.get,
    rules() {
      const { keys, two } = held.get();
      return {
        one: { issuer: ONE, jwksUri: `${keys.url}/keys` },
        two: { issuer: TWO, jwks: two.jwks },
        three: { issuer: THREE, jwks: two.jwks, audiences: ['shop', 'stock'] },
      };
    },
    sitesOf,
    check: (policy, rows, place) => table.check(policy, place === undefined ? held.get().sites : sitesOf(place), rows),
  };
}
