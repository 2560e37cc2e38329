import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ConnectionStatus, TypeStatus } from '../push/types.ts';
import type { AnyResource, ResourceChange } from '../resources/types.ts';
import { DistributionHistory } from './distribution.ts';

const KEY = 'VirtualService/shop/web';

function change(key: string, fingerprint: string): ResourceChange {
  // Only the fingerprint is looked at.
  return { key, before: undefined, after: { fingerprint } as AnyResource };
}

function connection(acked: number): ConnectionStatus {
  const rds = { subscribed: 1, versionAcked: acked } as unknown as TypeStatus;
  const unasked = { subscribed: 'none', versionAcked: -1 } as unknown as TypeStatus;
  const node = { workload: 'web-1.shop' } as ConnectionStatus['node'];
  return {
    connectionId: 'c1',
    node,
    types: new Map([['rds', rds] as const, ['eds', unasked] as const]),
  } as unknown as ConnectionStatus;
}

describe('distribution history', () => {
  it('says what a proxy has while a change is on its way, and that it has all when nothing is', () => {
    const history = new DistributionHistory(60_000);
    history.note(2, [change(KEY, 'first')], 0);
    history.note(5, [change(KEY, 'second')], 1000);
    const [behind] = history.where(KEY, 'second', [connection(4)], () => false);
    assert.deepEqual(behind, { proxy: 'web-1.shop', connectionId: 'c1', versions: { rds: 'first' }, upToDate: false });
    const [settled] = history.where(KEY, 'second', [connection(4)], () => true);
    assert.deepEqual(settled?.versions, { rds: 'second' });
  });

  it('forgets what is older than the retention', () => {
    const history = new DistributionHistory(60_000);
    history.note(2, [change(KEY, 'first')], 0);
    history.note(3, [change(KEY, 'second')], 70_000);
    const [answer] = history.where(KEY, 'second', [connection(2)], () => false);
    assert.deepEqual(answer?.versions, { rds: '' });
  });

  it('takes a resource without remembered changes to be everywhere as it is', () => {
    const history = new DistributionHistory(60_000);
    history.note(9, [change('Gateway/shop/other', 'x')], 0);
    const [answer] = history.where(KEY, 'only', [connection(1)], () => false);
    assert.deepEqual(answer?.versions, { rds: 'only' });
  });
});
