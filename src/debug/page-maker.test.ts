import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import { endpoints, inline, Mesh, service, sidecar } from '../push/testing/mesh.ts';
import { type PageLimits, PageMaker } from './page-maker.ts';

/** ConcurrencyLimiter of the event loop are taken when the test says so; every look at the clock takes a millisecond. */
function controlled(limits: Partial<PageLimits> = {}) {
  const turns: (() => void)[] = [];
  let ms = 0;
  const maker = new PageMaker({
    now: () => ms++,
    nextTurn: () => new Promise((resolve) => turns.push(resolve)),
    limits,
  });
  /** Lets what can run run, then takes one turn; false when nobody waits for one. */
  const turn = async (): Promise<boolean> => {
    await new Promise((resolve) => setImmediate(resolve));
    const next = turns.shift();
    next?.();
    return next !== undefined;
  };
  return { maker, turn, waiting: () => turns.length };
}

const reader = (address = '192.0.2.1', gone = new AbortController()) => ({ address, gone: gone.signal });

function* pieces(count: number, made: number[] = [], piece = 'x') {
  for (let index = 0; index < count; index++) {
    made.push(index);
    yield piece;
  }
}

const failure = (promise: Promise<unknown>) =>
  promise.then(
    () => 'made',
    (error: { code?: string }) => error.code,
  );

test('an endpoint push reaches its proxy while a page is being made', async () => {
  const mesh = new Mesh(inline, [service('shop', 'web'), endpoints('shop', 'web', '10.0.0.1')]);
  const { session, pushes } = mesh.connect(sidecar('10.0.0.9', 'shop'));
  await session.ready;
  await mesh.settled();
  const before = pushes.length;
  const { maker, turn, waiting } = controlled();
  let done = false;
  const made: number[] = [];
  const page = maker.make(() => pieces(100, made), reader()).finally(() => (done = true));
  await turn();
  mesh.change([endpoints('shop', 'web', '10.0.0.1', '10.0.0.2')]);
  await mesh.settled();
  assert.ok(pushes.slice(before).some(({ types }) => types.has('eds')));
  assert.deepEqual([done, waiting()], [false, 1]);
  assert.ok(made.length < 20, `${made.length} pieces in two slices`);
  while (await turn()) assert.equal(done, false);
  assert.equal((await page)?.bytes, 101);
  session.close();
});

describe('pages', () => {
  it('are made one at a time, in the order in which they were asked for', async () => {
    const { maker, turn } = controlled();
    const [first, second]: [number[], number[]] = [[], []];
    const pages = [
      maker.make(() => pieces(20, first), reader('192.0.2.1')),
      maker.make(() => pieces(20, second), reader('192.0.2.2')),
    ];
    while (await turn()) if (second.length > 0) assert.equal(first.length, 20);
    assert.equal((await Promise.all(pages)).length, 2);
  });

  it('are not made on when their reader goes, and those behind come sooner', async () => {
    const { maker, turn } = controlled();
    const [gone, made, next]: [AbortController, number[], number[]] = [new AbortController(), [], []];
    const left = failure(maker.make(() => pieces(1000, made), reader('192.0.2.1', gone)));
    const leftWhileWaiting = failure(maker.make(() => assert.fail('made'), reader('192.0.2.1', gone)));
    const page = maker.make(() => pieces(5, next), reader('192.0.2.2'));
    await turn();
    gone.abort();
    while (await turn());
    assert.equal(await left, 'deadline_exceeded');
    assert.equal(await leftWhileWaiting, 'deadline_exceeded');
    assert.ok(made.length < 20);
    assert.equal((await page)?.bytes, 6);
  });

  it('that wait are bounded, and no address takes all places', async () => {
    const { maker, turn } = controlled({ maxWaiting: 5 });
    const ask = (address: string) => failure(maker.make(() => pieces(1), reader(address)));
    const one = Array.from({ length: 10 }, () => ask('192.0.2.1'));
    const other = ask('192.0.2.2');
    const late = ask('192.0.2.3');
    while (await turn());
    const codes = await Promise.all(one);
    assert.deepEqual([codes.filter((code) => code === 'made').length, codes.at(-1)], [4, 'unavailable']);
    assert.deepEqual([await other, await late], ['made', 'unavailable']);
    assert.equal(await ask('192.0.2.1'), 'made', 'places are free again');
  });

  it('are bounded in bytes and in time, and a fault in one stops no other', async () => {
    const { maker, turn } = controlled({ maxBytes: 1 << 20, maxMs: 300 });
    const large = failure(maker.make(() => pieces(40, [], 'x'.repeat(65_536)), reader()));
    const long = failure(maker.make(() => pieces(10_000), reader()));
    const broken = failure(
      maker.make(() => {
        throw Object.assign(new Error('broken'), { code: 'broken' });
      }, reader()),
    );
    const good = failure(maker.make(() => pieces(1), reader()));
    while (await turn());
    assert.deepEqual(await Promise.all([large, long, broken, good]), [
      'resource_exhausted',
      'resource_exhausted',
      'broken',
      'made',
    ]);
  });

  it('that slow readers do not take are bounded together', async () => {
    const { maker, turn } = controlled({ maxUnsentBytes: 1000 });
    const ask = async (address: string) => {
      const page = maker.make(() => pieces(300), reader(address));
      const outcome = failure(page);
      while (await turn());
      return (await outcome) === 'made' ? page : undefined;
    };
    const held = [await ask('192.0.2.1'), await ask('192.0.2.1')];
    assert.equal(await ask('192.0.2.1'), undefined);
    for (const page of held) page?.release();
    assert.ok(await ask('192.0.2.1'));
  });
});
