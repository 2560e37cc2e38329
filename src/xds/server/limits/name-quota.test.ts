import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Memos } from '../../../core/memo.ts';
import { NameSets } from '../../protocol/index.ts';
import { NameQuota, type StreamNames } from './name-quota.ts';

const sets = new NameSets(new Memos());

function some(prefix: string, count: number) {
  return sets.of(Array.from({ length: count }, (_, index) => `${prefix}-${index}`));
}

/** Streams of a caller, each with names of its own; how many of them get theirs. */
function fill(quota: NameQuota, caller: string, each: number): StreamNames[] {
  const streams: StreamNames[] = [];
  for (;;) {
    const stream = quota.enter(caller);
    try {
      stream.hold('eds', some(`${caller}-${streams.length}`, each));
    } catch {
      stream.leave();
      return streams;
    }
    streams.push(stream);
  }
}

describe('the names that streams subscribe to', () => {
  it('are at most half of the capacity for one caller, and another one still finds some', () => {
    const quota = new NameQuota(1000, 0);
    const first = fill(quota, 'a', 10);
    assert.equal(first.length, 50);
    assert.equal(fill(quota, 'b', 10).length, 25);
    for (const stream of first) stream.leave();
    assert.equal(quota.names, 250);
    assert.equal(fill(quota, 'c', 10).length, 37);
  });

  it('count once when streams share them, also between callers', () => {
    const quota = new NameQuota(1000, 0);
    const shared = some('shared', 400);
    const streams = Array.from({ length: 100 }, (_, index) => quota.enter(`caller ${index % 10}`));
    for (const stream of streams) for (const type of ['eds', 'rds'] as const) stream.hold(type, shared);
    assert.equal(quota.names, 400);
    for (const stream of streams) stream.hold('eds', some('other', 3));
    assert.equal(quota.names, 403);
    for (const stream of streams) stream.leave();
    assert.equal(quota.names, 0);
  });

  it('include those that a proxy reports and that do not exist', () => {
    const quota = new NameQuota(100, 0);
    const stream = quota.enter('a');
    stream.hold('vhds', some('v', 5), 30);
    assert.equal(quota.names, 35);
    assert.throws(() => stream.hold('vhds', some('v', 5), 60), { code: 'resource_exhausted' });
    stream.leave();
    assert.equal(quota.names, 0);
  });

  it('are refused with the caller and the number, and some are never refused', () => {
    const quota = new NameQuota(100, 20);
    fill(quota, 'a', 1);
    const late = quota.enter('late');
    late.hold('eds', some('late', 20));
    fill(quota, 'b', 5);
    assert.throws(() => late.hold('rds', some('more', 60)), {
      code: 'resource_exhausted',
      message: 'the proxies of late subscribe to 80 different names, which exceeds their current quota',
    });
  });
});
