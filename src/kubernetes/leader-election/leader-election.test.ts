/** Leader election among simulated replicas: who leads, when another takes over, and what the Lease says. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ApiError } from '../api-error.ts';
import { LeaseSimulation, type Replica, type ReplicaOptions } from '../testing/lease-simulation.ts';

const SECOND = 1000;

function simulation(...options: readonly (string | ReplicaOptions)[]) {
  const it = new LeaseSimulation();
  const replicas = options.map((each) => it.start(typeof each === 'string' ? { identity: each } : each));
  const leaders = (): string[] => replicas.filter(({ election }) => election.isLeading).map(holderOf);
  const replicaOf = (identity: string | undefined): Replica => {
    const found = replicas.find(({ election }) => holderOf({ election }) === identity && election.isLeading);
    assert.ok(found, `${identity} leads`);
    return found;
  };
  return { it, replicas, leaders, replicaOf };
}

function holderOf({ election }: Pick<Replica, 'election'>): string {
  return election.holder ?? '';
}

describe('a leader election', () => {
  test('elects one of several replicas that start together, and names it in the Lease', async () => {
    const { it, leaders, replicas } = simulation('a', 'b', 'c');
    await it.advance(SECOND);
    const [leader, ...more] = leaders();
    assert.deepEqual(more, []);
    assert.equal(it.lease?.spec.holderIdentity, leader);
    assert.equal(it.lease?.spec.leaseTransitions, 0);
    assert.equal(it.lease?.spec.leaseDurationSeconds, 15);
    assert.match(it.lease?.spec.renewTime ?? '', /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
    assert.deepEqual(
      replicas.map(({ election }) => election.holder),
      [leader, leader, leader],
    );
  });

  test('keeps its leader, which writes every five seconds, and followers write nothing', async () => {
    const { it, leaders } = simulation('a', 'b', 'c');
    await it.advance(SECOND);
    const before = leaders();
    const [writes, acquired] = [it.writes, it.lease?.spec.acquireTime];
    await it.advance(600 * SECOND);
    assert.deepEqual(leaders(), before);
    assert.equal(it.lease?.spec.acquireTime, acquired);
    assert.ok(it.writes - writes <= 121, `${it.writes - writes} writes in ten minutes`);
  });

  test('lets another replica lead within the lease after its leader was killed', async () => {
    const { it, leaders, replicaOf } = simulation('a', 'b');
    await it.advance(7 * SECOND);
    const [first] = leaders();
    replicaOf(first).kill();
    await it.advance(13 * SECOND);
    const others = () => leaders().filter((each) => each !== first);
    assert.deepEqual(others(), [], 'the lease is left to its holder');
    await it.advance(3 * SECOND);
    assert.equal(others().length, 1);
    assert.equal(it.lease?.spec.leaseTransitions, 1);
  });

  test('lets another replica lead at once when its leader is closed', async () => {
    const { it, leaders, replicaOf } = simulation('a', 'b');
    await it.advance(7 * SECOND);
    const [first] = leaders();
    const closing = replicaOf(first).election.close();
    await it.advance(100);
    await closing;
    const [second, ...more] = leaders();
    assert.deepEqual(more, []);
    assert.ok(second !== undefined && second !== first);
    assert.equal(it.lease?.spec.holderIdentity, second);
  });

  test('gives the Lease up only after the task has ended', async () => {
    let end = (): void => {};
    const lead = () => new Promise<void>((resolve) => (end = resolve));
    const { it, leaders, replicas } = simulation({ identity: 'a', lead });
    const [a] = replicas;
    await it.advance(SECOND);
    const b = it.start({ identity: 'b' });
    const closing = a?.election.close();
    await it.advance(3 * SECOND);
    assert.deepEqual([leaders(), b.election.isLeading, it.lease?.spec.holderIdentity], [[], false, 'a']);
    end();
    await it.advance(100);
    await closing;
    assert.ok(b.election.isLeading);
  });

  test('is closed in limited time although its task does not end', async () => {
    const { it, replicas } = simulation({ identity: 'a', lead: () => new Promise<void>(() => {}) });
    await it.advance(SECOND);
    let closed = false;
    void replicas[0]?.election.close().then(() => (closed = true));
    await it.advance(11 * SECOND);
    assert.ok(closed);
    assert.equal(it.lease?.spec.holderIdentity, 'a', 'not given up: the task may still work');
  });

  test('ends the task ten seconds after the last renewal when the API server does not answer', async () => {
    const { it, replicas, leaders } = simulation('a');
    await it.advance(6 * SECOND);
    it.network = { ...it.network, transport: () => ({ request: undefined, answer: undefined, fails: false }) };
    await it.advance(8 * SECOND);
    assert.ok(replicas[0]?.isWorking, 'a short outage ends nothing');
    await it.advance(2 * SECOND);
    assert.deepEqual([leaders(), replicas[0]?.isWorking], [[], false]);
    assert.match(replicas[0]?.lines.at(-1) ?? '', /was not renewed for 10 s: no response within 4 s/);
  });

  test('says once why the Lease cannot be created', async () => {
    const { it, replicas } = simulation('a');
    it.refuseCreate = new ApiError({ code: 404, reason: 'NotFound', message: 'namespaces "mesh-system" not found' });
    await it.advance(60 * SECOND);
    const [line, ...more] = replicas[0]?.lines ?? [];
    assert.match(line ?? '', /leader election with Lease .*: HTTP 404 NotFound: namespaces "mesh-system" not found/);
    assert.deepEqual(more, []);
    it.refuseCreate = undefined;
    await it.advance(30 * SECOND);
    assert.ok(replicas[0]?.election.isLeading);
  });

  test('leads again after an outage, and says once why it did not', async () => {
    const { it, replicas, leaders } = simulation('a');
    await it.advance(6 * SECOND);
    const good = it.network;
    it.network = { ...good, transport: () => ({ request: 5, answer: 5, fails: true }) };
    await it.advance(300 * SECOND);
    it.network = good;
    await it.advance(20 * SECOND);
    assert.deepEqual(leaders(), ['a']);
    const lines = replicas[0]?.lines ?? [];
    assert.equal(lines.filter((line) => line.includes('HTTP 500')).length, 2, lines.join('\n'));
    assert.equal(lines.filter((line) => line.includes('works again')).length, 1);
  });

  test('does not lead after the process was stopped for longer than the lease', async () => {
    const { it, leaders, replicas, replicaOf } = simulation('a', 'b');
    await it.advance(SECOND);
    const [first] = leaders();
    const stopped = replicaOf(first);
    stopped.pause();
    await it.advance(30 * SECOND);
    assert.equal(stopped.election.isLeading, false, 'by the clock, before anything has run');
    assert.equal(leaders().length, 1);
    stopped.resume();
    await it.advance(100);
    assert.equal(stopped.isWorking, false);
    assert.equal(leaders().length, 1);
    assert.equal(replicas.filter(({ isWorking }) => isWorking).length, 1);
  });

  test('continues to lead when an answer was lost but the write was made', async () => {
    const { it, leaders } = simulation('a', 'b');
    await it.advance(SECOND);
    const before = leaders();
    const good = it.network;
    let lost = 0;
    it.network = {
      ...good,
      transport: () => (lost++ === 0 ? { request: 5, answer: undefined, fails: false } : good.transport()),
    };
    await it.advance(30 * SECOND);
    assert.deepEqual(leaders(), before);
    assert.equal(it.lease?.spec.leaseTransitions, 0);
  });

  test('writes a deleted Lease again, and no other replica leads meanwhile', async () => {
    const { it, leaders } = simulation('a', 'b', 'c');
    await it.advance(7 * SECOND);
    const before = leaders();
    it.edit(undefined);
    await it.advance(SECOND, () => assert.ok(leaders().length <= 1));
    assert.deepEqual(leaders(), before);
    assert.equal(it.lease?.spec.holderIdentity, before[0]);
  });

  test('creates a deleted Lease after a whole lease, and leads after another', async () => {
    const { it, leaders, replicaOf } = simulation('a', 'b');
    await it.advance(SECOND);
    const [first] = leaders();
    replicaOf(first).kill();
    const others = () => leaders().filter((each) => each !== first);
    it.edit(undefined);
    await it.advance(14 * SECOND);
    assert.equal(it.lease, undefined);
    await it.advance(14 * SECOND);
    assert.notEqual(it.lease, undefined);
    assert.deepEqual(others(), []);
    await it.advance(4 * SECOND);
    assert.equal(others().length, 1);
  });

  test('ends when an operator names another holder, and takes the Lease back when nobody renews it', async () => {
    const { it, leaders, replicas } = simulation('a');
    await it.advance(SECOND);
    it.edit({ holderIdentity: 'someone' });
    await it.advance(SECOND);
    assert.deepEqual(leaders(), []);
    assert.match(replicas[0]?.lines.at(-1) ?? '', /is held by "someone"/);
    await it.advance(16 * SECOND);
    assert.deepEqual(leaders(), ['a']);
  });

  test('respects a longer duration that is in the Lease, for a minute at most', async () => {
    const { it, leaders } = simulation('a');
    await it.advance(SECOND);
    it.edit({ holderIdentity: 'someone', leaseDurationSeconds: 86_400 });
    await it.advance(50 * SECOND);
    assert.deepEqual(leaders(), []);
    await it.advance(12 * SECOND);
    assert.deepEqual(leaders(), ['a']);
  });

  test('runs a task that fails again, with a line for each failure', async () => {
    let runs = 0;
    const lead = () => {
      runs++;
      if (runs < 3) throw new Error('not\nyet');
    };
    const { it, leaders, replicas } = simulation({ identity: 'a', lead });
    await it.advance(10 * SECOND);
    assert.equal(runs, 3);
    assert.deepEqual(leaders(), ['a']);
    assert.equal(replicas[0]?.lines.filter((line) => line.endsWith('not yet')).length, 2);
  });
});
