import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { XdsType } from '../../core/xds-types.ts';
import type { ConnectionStatus, TypeStatus } from '../../push/types.ts';
import type { AnyResource, ResourceChange } from '../../resources/kinds/types.ts';
import { DistributionHistory } from './distribution.ts';

const KEY = 'VirtualService/shop/web';

/** A change between contents, of which only fingerprints are read. */
function change(key: string, before: string | undefined, after: string | undefined): ResourceChange {
  const resource = (fingerprint: string | undefined) =>
    fingerprint === undefined ? undefined : ({ fingerprint } as AnyResource);
  return { key, before: resource(before), after: resource(after) };
}

/** By type: the version that the proxy has acknowledged, or `current` when it is up to date. */
function connection(held: Partial<Record<XdsType, number | 'current'>>): ConnectionStatus {
  const types = Object.entries(held).map(([type, version]) => {
    const status = {
      subscribed: 1,
      current: version === 'current',
      versionComplete: version === 'current' ? 0 : version,
    };
    return [type, status as unknown as TypeStatus] as const;
  });
  const unasked = { subscribed: 'none', current: true, versionComplete: 0 } as unknown as TypeStatus;
  const node = { workload: 'web-1.shop' } as ConnectionStatus['node'];
  return { connectionId: 'c1', node, types: new Map([...types, ['sds', unasked]]) } as unknown as ConnectionStatus;
}

/** The version of the resource at the one proxy, whose configuration is of a snapshot version. */
function held(
  history: DistributionHistory,
  current: string | undefined,
  proxy: ConnectionStatus,
  { version = 9, now = 2000 } = {},
) {
  return history.where({ key: KEY, current, connections: [proxy], versionOf: () => version, now })?.[0];
}

describe('distribution history', () => {
  const history = new DistributionHistory(60_000);
  history.note(2, [change(KEY, undefined, 'first')], 0);
  history.note(5, [change(KEY, 'first', 'second')], 1000);

  it('has for each type the fingerprint at the acknowledged version', () => {
    const proxy = connection({ cds: 4, eds: 1, lds: 'current', rds: 5, vhds: 0 });
    assert.deepEqual(held(history, 'second', proxy), {
      proxy: 'web-1.shop',
      connectionId: 'c1',
      versions: { cds: 'first', eds: '', lds: 'second', rds: 'second', vhds: '' },
      upToDate: false,
    });
  });

  it('reports a proxy as up to date when all of its types are', () => {
    assert.equal(held(history, 'second', connection({ cds: 'current', rds: 7 }))?.upToDate, true);
    // Its configuration is not generated from the change yet.
    assert.deepEqual(held(history, 'second', connection({ cds: 'current' }), { version: 4 })?.versions, {
      cds: 'first',
    });
  });

  it('is undefined for an unknown resource, and empty for a deleted one', () => {
    assert.equal(held(new DistributionHistory(60_000), undefined, connection({ rds: 4 })), undefined);
    const deleted = new DistributionHistory(60_000);
    deleted.note(6, [change(KEY, 'second', undefined)], 1000);
    assert.deepEqual(held(deleted, undefined, connection({ cds: 'current', rds: 5 })), {
      proxy: 'web-1.shop',
      connectionId: 'c1',
      versions: { cds: '', rds: 'second' },
      upToDate: false,
    });
  });

  it('has null for versions older than the retention', () => {
    const short = new DistributionHistory(60_000);
    short.note(2, [change(KEY, undefined, 'first')], 0);
    short.note(3, [change(KEY, 'first', 'second')], 50_000);
    const proxy = connection({ cds: 1, lds: 2, rds: 3 });
    const at = (now: number) => held(short, 'second', proxy, { now })?.versions;
    assert.deepEqual(at(55_000), { cds: '', lds: 'first', rds: 'second' });
    assert.deepEqual(at(65_000), { cds: null, lds: 'first', rds: 'second' });
    assert.deepEqual(at(115_000), { cds: null, lds: null, rds: 'second' });
  });

  it('has the current version everywhere for a resource without remembered changes', () => {
    const quiet = new DistributionHistory(60_000);
    quiet.note(9, [change('Gateway/shop/other', undefined, 'x')], 0);
    assert.deepEqual(held(quiet, 'only', connection({ rds: 1 }))?.versions, { rds: 'only' });
  });
});
