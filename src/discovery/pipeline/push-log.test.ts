import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { PushLog } from './push-log.ts';

function log() {
  const lines: string[] = [];
  const timers: { ms: number; run: () => void }[] = [];
  const pushes = new PushLog({ write: (line) => lines.push(line), later: (ms, run) => timers.push({ ms, run }) });
  /** Lets the time of what waits this long come. */
  const pass = (ms: number): void => {
    for (const timer of timers.filter((each) => each.ms <= ms)) {
      timers.splice(timers.indexOf(timer), 1);
      timer.run();
    }
  };
  return { pushes, lines, pass };
}

describe('log of pushes', () => {
  it('logs a push when it is acknowledged: resources, number of proxies, time', () => {
    const { pushes, lines, pass } = log();
    pushes.changed(['VirtualService/shop/web']);
    for (let proxy = 0; proxy < 3; proxy++) pushes.began();
    pass(1000);
    pushes.ended('proxy-1', 120);
    pushes.ended('proxy-2', 340);
    pushes.ended('proxy-3', undefined);
    assert.deepEqual(lines, []);
    pass(1000);
    assert.deepEqual(lines, ['pushed VirtualService/shop/web to 2 proxies in 0.34 s']);
    pass(10_000);
    assert.equal(lines.length, 1);
  });

  it('logs several pushes in one line, with the names of a few resources', () => {
    const { pushes, lines, pass } = log();
    for (let change = 0; change < 100; change++) {
      pushes.changed([`Service/shop/web-${change}`]);
      pushes.began();
      pushes.ended('proxy-4', 5);
    }
    pass(1000);
    assert.deepEqual(lines, [
      'pushed Service/shop/web-0, Service/shop/web-1, Service/shop/web-2 and 97 more to 1 proxy in 0.01 s',
    ]);
  });

  it('does not log changes without a push', () => {
    const { pushes, lines, pass } = log();
    pushes.changed(['Service/shop/unseen']);
    pushes.began();
    pushes.ended('proxy-5', undefined);
    pass(1000);
    assert.deepEqual(lines, []);
    pushes.changed(['Service/shop/seen']);
    pushes.began();
    pushes.ended('proxy-6', 10);
    pass(1000);
    assert.deepEqual(lines, ['pushed Service/shop/seen to 1 proxy in 0.01 s']);
  });

  it('logs the progress of a slow push, and its end', () => {
    const { pushes, lines, pass } = log();
    pushes.changed(['Gateway/edge/front']);
    pushes.began();
    pushes.began();
    pushes.ended('proxy-7', 20);
    pass(10_000);
    assert.deepEqual(lines, ['pushing Gateway/edge/front: 1 proxy acknowledged it, 1 not yet']);
    pass(10_000);
    assert.equal(lines.length, 1);
    pushes.ended('proxy-8', 15_000);
    pass(1000);
    assert.equal(lines[1], 'pushed earlier changes to 1 proxy in 15.00 s');
  });
});
