import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Endpoint } from '../../model/types.ts';
import type { LocalityLbSetting } from '../../resources/schemas.ts';
import { localityClass } from './classes.ts';
import { shareLocalities } from './locality.ts';

const PLACES = ['', 'r1', 'r1/z1', 'r1/z1/s1', 'r1/z1/s2', 'r1/z2/s1', 'r2/z1', 'r3/z1/s1'];
const ENDPOINTS = PLACES.map((locality) => ({ locality }) as Endpoint);
const WEIGHTS = new Map(PLACES.map((place, index) => [place, index + 1]));

const SETTINGS: readonly LocalityLbSetting[] = [
  {},
  {
    failover: [
      { from: 'r1', to: 'r2' },
      { from: 'gone', to: 'r3' },
    ],
  },
  {
    distribute: [
      { from: 'r1/z1/*', to: { 'r1/z1/*': 80, 'r2/*': 20 } },
      { from: 'r1/*', to: { 'r1/*': 100 } },
      { from: '*/z9', to: { 'r3/*': 100 } },
    ],
  },
];

/** All that proxies may say, more of it than endpoints have. */
const CLAIMS = ['r1', 'r2', 'r3', 'gone', 'x1', 'x2'].flatMap((region) =>
  ['', '/z1', '/z2', '/z9', '/x'].flatMap((zone) => ['', '/s1', '/s2', '/x'].map((subzone) => region + zone + subzone)),
);

describe('classes of localities', () => {
  for (const [index, setting] of SETTINGS.entries()) {
    const rules = (from: string) => ({
      from,
      failoverEnabled: true,
      failover: undefined,
      distribute: undefined,
      ...setting,
    });

    it(`treat each locality as it would be treated itself: setting ${index}`, () => {
      for (const claim of CLAIMS) {
        const stands = localityClass(ENDPOINTS, setting, claim);
        assert.deepEqual(shareLocalities(WEIGHTS, rules(stands)), shareLocalities(WEIGHTS, rules(claim)), claim);
        assert.equal(localityClass(ENDPOINTS, setting, stands), stands, claim);
      }
    });

    it(`are no more than places and rules make: setting ${index}`, () => {
      const made = new Set(
        Array.from({ length: 1000 }, (_, n) => localityClass(ENDPOINTS, setting, `r${n}/z${n}/s${n}`)),
      );
      assert.ok(made.size <= PLACES.length + 4, [...made].join());
    });
  }
});
