import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Memos } from '../../core/memo.ts';
import { applyChanges } from '../../model/testing/steps.ts';
import type { Endpoint, Snapshot } from '../../model/types/types.ts';
import { meshResource, parse, snapshotOf } from '../../push/testing/mesh.ts';
import type { LocalityLbSetting } from '../../resources/kinds/schemas.ts';
import { type AnyResource, keyOf } from '../../resources/kinds/types.ts';
import { changedLocalityNames, localityClass, localityOfMesh } from './classes.ts';
import { shareLocalities } from './locality.ts';

const MEMOS = new Memos();
const PLACES = ['', 'r1', 'r1/z1', 'r1/z1/s1', 'r1/z1/s2', 'r1/z2/s1', 'r2/z1', 'r3/z1/s1'];
const ENDPOINTS = PLACES.map((locality) => ({ locality }) as Endpoint);
const GROUPS = PLACES.map((locality, index) => ({ locality, rank: 0, weight: index + 1 }));

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

/** All localities that proxies may report, more than endpoints have. */
const REPORTED = ['r1', 'r2', 'r3', 'gone', 'x1', 'x2'].flatMap((region) =>
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

    it(`are treated like their members: setting ${index}`, () => {
      for (const reported of REPORTED) {
        const represented = localityClass(MEMOS, ENDPOINTS, setting, reported);
        assert.deepEqual(
          shareLocalities(GROUPS, rules(represented)),
          shareLocalities(GROUPS, rules(reported)),
          reported,
        );
        assert.equal(localityClass(MEMOS, ENDPOINTS, setting, represented), represented, reported);
      }
    });

    it(`are no more than endpoints' places and rules distinguish: setting ${index}`, () => {
      const classes = new Set(
        Array.from({ length: 1000 }, (_, n) => localityClass(MEMOS, ENDPOINTS, setting, `r${n}/z${n}/s${n}`)),
      );
      assert.ok(classes.size <= PLACES.length + 4, [...classes].join());
    });
  }
});

describe('localities of a mesh', () => {
  const NODES = ['z1', 'z2'].map((zone) => {
    const labels = { 'topology.kubernetes.io/region': 'r1', 'topology.kubernetes.io/zone': zone };
    return parse({ apiVersion: 'v1', kind: 'Node', metadata: { name: zone, labels } });
  });
  const entry = (name: string, locality: string) =>
    meshResource('WorkloadEntry', 'shop', name, { address: `10.0.0.${name.length}`, labels: { app: 'web' }, locality });
  const MESH = [
    ...NODES,
    meshResource('ServiceEntry', 'shop', 'web', {
      hosts: ['web.example'],
      ports: [{ number: 80, name: 'http', protocol: 'HTTP' }],
      resolution: 'STATIC',
      workloadSelector: { labels: { app: 'web' } },
    }),
    entry('one', 'r1/z1/s1'),
  ];
  const rule = meshResource('DestinationRule', 'shop', 'web', {
    host: 'web.example',
    trafficPolicy: {
      outlierDetection: { consecutive5xxErrors: 5 },
      loadBalancer: { localityLbSetting: { failover: [{ from: 'r7', to: 'r1' }] } },
    },
  });

  it('count where endpoints are and what rules name, and nothing else that proxies report', () => {
    const snapshot = snapshotOf([...MESH, rule]);
    const isKnown = (name: string) => snapshot.localityNames.has(name);
    const represented = (locality: string) => localityOfMesh(snapshot, isKnown, locality);
    assert.equal(represented('r1/z1/s1'), 'r1/z1/s1');
    assert.equal(represented('r1/z1/x'), 'r1/z1/*');
    assert.equal(represented('r1/x/s1'), 'r1/*/*');
    assert.equal(represented('x/z1'), '*/*');
    assert.equal(represented('r7'), 'r7');
    assert.equal(represented('r1'), 'r1');
    assert.equal(localityOfMesh(snapshotOf(MESH), isKnown, 'r1/z1/s1'), '');
  });

  it('change when endpoints are in other localities, and not when endpoints only change', () => {
    const before = snapshotOf([...MESH, rule]);
    const after = (...resources: AnyResource[]) =>
      applyChanges(before, {
        changes: resources.map((resource) => ({ key: keyOf(resource), before: undefined, after: resource })),
      }).snapshot;
    const changed = (from: Snapshot, to: Snapshot) => {
      const places = changedLocalityNames(from, to);
      return places && [...places].sort();
    };
    assert.deepEqual(changed(before, after(entry('other', 'r1/z1/s1'))), []);
    assert.deepEqual(changed(before, after(entry('other', 'r1/z2'))), ['r1/z2', 'r1/z2/']);
    assert.deepEqual(changed(before, after(entry('one', 'r2'))), ['r1', 'r1/z1', 'r1/z1/s1', 'r2', 'r2/', 'r2//']);
    assert.equal(changed(before, snapshotOf(MESH)), undefined);
    assert.deepEqual(changed(snapshotOf(MESH), snapshotOf([...MESH, entry('other', 'r9')])), []);
  });
});
