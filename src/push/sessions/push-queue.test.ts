import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import { XDS_TYPES, type XdsType } from '../../core/xds-types.ts';
import type { Push } from '../push.ts';
import type { PushOutcome } from '../types.ts';
import { PushQueue } from './push-queue.ts';

interface Target {
  readonly name: string;
  readonly caller: string;
  readonly begun: boolean;
}

function target(name: string, caller = 'caller', begun = false): Target {
  return { name, caller, begun };
}

function pushOf(types: readonly XdsType[], version: number, eventTime = version): Push {
  return { types: new Set(types), version, eventTime, reasons: new Set(['config']) };
}

/** A queue whose pushes end when the test says so. */
function harness(throttle: number) {
  const pushes: { session: Target; push: Push; end: (outcome: PushOutcome) => void }[] = [];
  const waits: number[] = [];
  let now = 0;
  const queue = new PushQueue<Target>({
    throttle,
    now: () => now,
    push: (session, push) =>
      new Promise((resolve) => {
        pushes.push({ session, push, end: resolve });
      }),
    observer: { waited: (milliseconds) => waits.push(milliseconds) },
  });
  return { queue, pushes, waits, tick: (milliseconds: number) => (now += milliseconds) };
}

const settle = () => new Promise((resolve) => setImmediate(resolve));

describe('push queue', () => {
  it('merges the work of a waiting session: union of types, newest version, earliest event time', async () => {
    const { queue, pushes } = harness(1);
    const [busy, waiting] = [target('busy'), target('waiting')];
    queue.enqueue(busy, pushOf(['cds'], 1));
    queue.enqueue(waiting, pushOf(['eds'], 2, 20));
    queue.enqueue(waiting, pushOf(['rds'], 3, 30));
    assert.equal(pushes.length, 1);
    pushes[0]?.end('sent');
    await settle();
    assert.deepEqual(pushes[1]?.push.types, new Set(['eds', 'rds']));
    assert.equal(pushes[1]?.push.version, 3);
    assert.equal(pushes[1]?.push.eventTime, 20);
  });

  it('serves the sessions of a caller that were sent a part before its others, and no other caller later', async () => {
    const { queue, pushes } = harness(1);
    queue.enqueue(target('busy', 'another'), pushOf(['cds'], 1));
    for (const each of [target('new'), target('begun', 'caller', true), target('third', 'third')])
      queue.enqueue(each, pushOf(['cds'], 1));
    for (let index = 0; index < 3; index++) {
      pushes[index]?.end('sent');
      await settle();
    }
    assert.deepEqual(
      pushes.map(({ session }) => session.name),
      ['busy', 'begun', 'third', 'new'],
    );
  });

  it('runs pushes that end at once one after the other, and work that arrives for a session during its push', () => {
    const pushes: string[] = [];
    const sessions = [target('first'), target('second')];
    const queue = new PushQueue<Target>({
      throttle: 1,
      now: () => 0,
      push: (session, { version }) => {
        pushes.push(`${session.name} ${version}`);
        if (version === 1) for (const each of sessions) queue.enqueue(each, pushOf(['cds'], 2));
        if (version === 3) throw new Error('a fault of the push');
        return 'sent';
      },
      observer: { waited: () => {} },
    });
    for (const version of [1, 3, 4]) for (const session of sessions) queue.enqueue(session, pushOf(['cds'], version));
    assert.deepEqual(pushes, [
      ...['first 1', 'second 2', 'first 2', 'second 1', 'first 2', 'second 2'],
      ...['first 3', 'second 3', 'first 4', 'second 4'],
    ]);
    assert.deepEqual([queue.waiting, queue.underWay], [0, 0]);
  });

  it('sends a session that gets work during its push to the end of the queue', async () => {
    const { queue, pushes } = harness(1);
    const [first, second] = [target('first'), target('second')];
    queue.enqueue(first, pushOf(['cds'], 1));
    queue.enqueue(second, pushOf(['cds'], 1));
    queue.enqueue(first, pushOf(['lds'], 2));
    pushes[0]?.end('sent');
    await settle();
    pushes[1]?.end('sent');
    await settle();
    assert.deepEqual(
      pushes.map(({ session }) => session.name),
      ['first', 'second', 'first'],
    );
  });

  it('measures the time in the queue from the first enqueue', async () => {
    const { queue, pushes, waits, tick } = harness(1);
    queue.enqueue(target('a'), pushOf(['cds'], 1));
    const b = target('b');
    queue.enqueue(b, pushOf(['cds'], 1));
    tick(30);
    queue.enqueue(b, pushOf(['cds'], 2));
    tick(12);
    pushes[0]?.end('sent');
    await settle();
    assert.deepEqual(waits, [0, 42]);
  });

  /** A queue whose pushes take time and end at once. */
  function timed(costs: (session: Target) => number) {
    const order: Target[] = [];
    const turns: (() => void)[] = [];
    let now = 0;
    const queue = new PushQueue<Target>({
      throttle: 100,
      now: () => now,
      push: (session) => {
        order.push(session);
        now += costs(session);
        return 'sent';
      },
      observer: { waited: () => {} },
      nextTurn: (run) => void turns.push(run),
    });
    const turn = (): boolean => {
      const run = turns.shift();
      run?.();
      return run !== undefined;
    };
    return { queue, order, turn };
  }

  it('runs pushes for a part of a turn of the event loop, and the others in the next turns', () => {
    const { queue, order, turn } = timed(() => 1);
    for (let index = 0; index < 100; index++) queue.enqueue(target(`s${index}`), pushOf(['cds'], 1));
    assert.equal(order.length, 40);
    turn();
    assert.equal(order.length, 80);
    while (turn());
    assert.deepEqual(
      order.map(({ name }) => name),
      Array.from({ length: 100 }, (_, index) => `s${index}`),
    );
    assert.equal(queue.waiting, 0);
  });

  it('delays no caller by more than a share of time, however many and expensive the sessions of the others', () => {
    const size = fc.integer({ min: 1, max: 60 });
    const cost = fc.integer({ min: 1, max: 8 });
    fc.assert(
      fc.property(fc.array(fc.tuple(size, cost), { minLength: 1, maxLength: 4 }), size, cost, (others, count, own) => {
        const costs = new Map(others.map(([, each], index) => [`other ${index}`, each]));
        const costOf = ({ caller }: Target): number => costs.get(caller) ?? own;
        const { queue, order, turn } = timed(costOf);
        for (const [index, [sessions]] of others.entries())
          for (let each = 0; each < sessions; each++)
            queue.enqueue(target(`${index}/${each}`, `other ${index}`), pushOf(['cds'], 1));
        const before = order.length;
        for (let each = 0; each < count; each++) queue.enqueue(target(`own ${each}`, 'own'), pushOf(['cds'], 1));
        while (turn());
        const used = new Map<string, number>();
        let served = 0;
        for (const session of order.slice(before)) {
          used.set(session.caller, (used.get(session.caller) ?? 0) + costOf(session));
          if (session.caller === 'own') served++;
          if (served === count) break;
          // One push of the other is under way when its turn would be over, and one ends what it began with.
          for (const [caller, time] of used) assert.ok(time <= (used.get('own') ?? 0) + 2 * 8, caller);
        }
        assert.equal(served, count);
        assert.equal(
          order.length,
          others.reduce((sum, [sessions]) => sum + sessions, count),
        );
      }),
      { numRuns: 200 },
    );
  });

  it('serves new sessions while sessions of their caller that were sent a part get work over and over', () => {
    const { queue, order, turn } = timed(() => 1);
    const stuck = Array.from({ length: 100 }, (_, index) => target(`begun ${index}`, 'caller', true));
    const fresh = Array.from({ length: 20 }, (_, index) => target(`new ${index}`));
    const change = (): void => {
      for (const session of stuck) queue.enqueue(session, pushOf(['eds'], 1));
      turn();
    };
    change();
    for (const session of fresh) queue.enqueue(session, pushOf(['eds'], 1));
    for (let changes = 0; changes < 4; changes++) change();
    assert.deepEqual(
      order.filter(({ begun }) => !begun),
      fresh,
    );
  });

  it('drops a session that is removed', async () => {
    const { queue, pushes } = harness(1);
    const gone = target('gone');
    queue.enqueue(target('a'), pushOf(['cds'], 1));
    queue.enqueue(gone, pushOf(['cds'], 1));
    queue.remove(gone);
    pushes[0]?.end('sent');
    await settle();
    assert.equal(pushes.length, 1);
    assert.equal(queue.waiting, 0);
  });

  it('frees the slot of a session that is removed during its push at once', () => {
    const { queue, pushes } = harness(1);
    const gone = target('gone');
    const next = target('next');
    queue.enqueue(gone, pushOf(['cds'], 1));
    queue.enqueue(next, pushOf(['cds'], 1));
    queue.remove(gone);
    assert.deepEqual(
      pushes.map(({ session }) => session),
      [gone, next],
    );
  });

  it('never exceeds the throttle, never pushes a session twice at once, and loses nothing', async () => {
    const step = fc.oneof(
      fc.record({
        kind: fc.constant('enqueue' as const),
        session: fc.nat(5),
        types: fc.subarray([...XDS_TYPES], { minLength: 1 }),
      }),
      fc.record({ kind: fc.constant('end' as const), index: fc.nat(5) }),
    );
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 3 }), fc.array(step, { maxLength: 40 }), async (throttle, steps) => {
        const { queue, pushes } = harness(throttle);
        const sessions = Array.from({ length: 6 }, (_, index) => target(`s${index}`, `caller ${index % 2}`));
        const asked = new Map<Target, Map<XdsType, number>>();
        const open = new Set<(typeof pushes)[number]>();
        const ended = new Set<(typeof pushes)[number]>();
        let version = 0;
        const check = () => {
          for (const push of pushes) if (!ended.has(push)) open.add(push);
          assert.ok(open.size <= throttle);
          assert.equal(new Set([...open].map(({ session }) => session)).size, open.size);
        };
        for (const next of steps) {
          if (next.kind === 'enqueue') {
            const session = sessions[next.session];
            if (session === undefined) continue;
            queue.enqueue(session, pushOf(next.types, ++version));
            const wanted = asked.get(session) ?? new Map<XdsType, number>();
            for (const type of next.types) wanted.set(type, version);
            asked.set(session, wanted);
          } else {
            const push = [...open][next.index];
            if (push === undefined) continue;
            open.delete(push);
            ended.add(push);
            push.end('sent');
            await settle();
          }
          check();
        }
        for (let rounds = 0; open.size > 0 && rounds < 100; rounds++) {
          for (const push of open) {
            open.delete(push);
            ended.add(push);
            push.end('sent');
          }
          await settle();
          check();
        }
        assert.equal(queue.waiting, 0);
        for (const [session, wanted] of asked) {
          for (const [type, newest] of wanted) {
            const served = pushes.filter((push) => push.session === session && push.push.types.has(type));
            assert.ok(served.some((push) => push.push.version >= newest));
          }
        }
      }),
      { numRuns: 60 },
    );
  });
});
