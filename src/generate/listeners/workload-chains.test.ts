/** Connections to workloads get the chain that they would get without the documents of others. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import { rangeHolds } from '../common/cidr.ts';
import { RangeIndex } from '../common/range-index.ts';
import { serviceOf } from '../testing/routes.ts';
import type { L4Chain } from './l4-chains.ts';
import { besideWorkloads } from './workload-chains.ts';

const UNKNOWN = 'unknown';

function chainOf(name: string, namespace: string, ranges: readonly string[], serverNames: readonly string[]): L4Chain {
  const service = { ...serviceOf(`${name}.example`, []), namespace };
  return { owner: name, service, writers: [namespace], ranges, serverNames, filters: filtersOf(name) };
}

function filtersOf(name: string): L4Chain['filters'] {
  return [{ name, typedConfig: { typeUrl: '', value: new Uint8Array() } }];
}

/** The narrowest of these ranges that has the address. */
function rangeOf(ranges: readonly string[], address: string): string | undefined {
  const around = ranges.filter((range) => rangeHolds(range, address));
  const length = (range: string) => Number(range.split('/')[1]);
  return around.sort((a, b) => length(b) - length(a))[0];
}

/** The chain that Envoy chooses: by the narrowest range, then by server name, and the first of several. */
function chosen(chains: readonly L4Chain[], address: string, serverName: string): string {
  const range = rangeOf(
    chains.flatMap(({ ranges }) => ranges),
    address,
  );
  const here = chains.filter(({ ranges }) => (range === undefined ? ranges.length === 0 : ranges.includes(range)));
  const named = here.find(({ serverNames }) => serverNames.includes(serverName));
  return (named ?? here.find(({ serverNames }) => serverNames.length === 0))?.owner ?? UNKNOWN;
}

const RANGES = ['10.0.0.0/8', '10.0.0.0/16', '10.0.0.0/24', '10.0.0.0/28', '10.0.0.4/30', '10.0.0.5/32', '10.1.0.0/16'];
const ADDRESSES = [
  '10.0.0.1',
  '10.0.0.5',
  '10.0.0.6',
  '10.0.0.9',
  '10.0.0.77',
  '10.0.7.1',
  '10.1.2.3',
  '10.9.9.9',
  '192.0.2.1',
];
const NAMES = ['a.example', 'b.example', ''];

const chains = fc
  .array(
    fc.record({
      namespace: fc.constantFrom('own', 'evil', 'other'),
      ranges: fc.uniqueArray(fc.constantFrom(...RANGES), { maxLength: 3 }),
      serverNames: fc.constantFrom([], [], ['a.example'], ['a.example', 'b.example']),
    }),
    { maxLength: 6 },
  )
  .map((list) => list.map((each, index) => chainOf(`c${index}`, each.namespace, each.ranges, each.serverNames)));
const workloads = fc.uniqueArray(fc.constantFrom(...RANGES, '10.0.0.9/32', '192.0.2.0/24'), { maxLength: 4 });

test('they are those of other documents for workloads, and all others stay as they are', () => {
  fc.assert(
    fc.property(chains, workloads, (all, ranges) => {
      const foreign = (chain: L4Chain) => chain.service?.namespace === 'evil' && chain.serverNames.length === 0;
      const others = all.filter((chain) => !foreign(chain));
      const { chains: made } = besideWorkloads(all, {
        port: 80,
        workloads: () => ranges,
        isForeign: (namespace) => namespace === 'evil',
        unknown: () => filtersOf(UNKNOWN),
        httpPods: new Set(),
        httpRanges: [],
      });
      const named = made.map((chain) => ({ ...chain, owner: chain.filters[0]?.name ?? '' }));
      const ofWorkloads = new RangeIndex(ranges);
      for (const address of ADDRESSES) {
        for (const name of NAMES) {
          const expected = chosen(ofWorkloads.around(address) === undefined ? all : others, address, name);
          assert.equal(chosen(named, address, name), expected, `${address} ${name}`);
        }
      }
    }),
    { numRuns: 2000 },
  );
});

test('HTTP is detected at workloads where it would be without the documents of others', () => {
  const detected = fc.constantFrom([], ['10.0.0.0/16'], ['10.1.0.0/16', '10.0.0.4/30']);
  fc.assert(
    fc.property(chains, workloads, detected, (all, ranges, httpRanges) => {
      const others = all.filter(({ service, serverNames }) => service?.namespace !== 'evil' || serverNames.length > 0);
      // Ranges in which HTTP is detected are those of services that have a chain for them.
      const own = httpRanges.filter((range) => others.some((chain) => chain.ranges.includes(range)));
      const isHttp = (list: readonly L4Chain[], http: readonly string[], address: string) => {
        const range = rangeOf([...list.flatMap((chain) => chain.ranges), ...http], address);
        return range === undefined || http.includes(range);
      };
      const made = besideWorkloads(all, {
        port: 80,
        workloads: () => ranges,
        isForeign: (namespace) => namespace === 'evil',
        unknown: () => filtersOf(UNKNOWN),
        httpPods: new Set(),
        httpRanges: own,
      });
      for (const address of ADDRESSES.filter((each) => new RangeIndex(ranges).around(each) !== undefined))
        assert.equal(isHttp(made.chains, made.httpRanges, address), isHttp(others, own, address), address);
    }),
    { numRuns: 2000 },
  );
});

test('HTTP to Pods of headless Services is detected in ranges that the callers’ own documents take', () => {
  const sharing = {
    port: 80,
    workloads: () => ['10.0.0.5/32', '10.1.0.0/24'],
    isForeign: () => false,
    unknown: () => filtersOf(UNKNOWN),
    httpRanges: [],
  };
  const own = [chainOf('own', 'own', ['10.0.0.0/16', '10.1.0.0/28', '10.2.0.0/16'], [])];
  const beside = besideWorkloads(own, { ...sharing, httpPods: new Set(['shop']) });
  assert.deepEqual(beside.httpRanges, ['10.1.0.0/28', '10.0.0.5/32']);
  const alone = besideWorkloads(own, { ...sharing, httpPods: new Set(['own']) });
  assert.deepEqual(alone, { chains: own, httpRanges: [], conflicts: [] });
});

test('a range of others that lies among workloads is reported', () => {
  const { conflicts, chains: made } = besideWorkloads([chainOf('x', 'evil', ['10.0.0.4/30', '10.9.0.0/16'], [])], {
    port: 80,
    workloads: () => ['10.0.0.0/24'],
    isForeign: () => true,
    unknown: () => filtersOf(UNKNOWN),
    httpPods: new Set(),
    httpRanges: [],
  });
  assert.deepEqual(conflicts, ['x: port 80 of 10.0.0.4/30 belongs to workloads there']);
  assert.deepEqual(
    made.map(({ ranges }) => ranges),
    [['10.9.0.0/16']],
  );
});
