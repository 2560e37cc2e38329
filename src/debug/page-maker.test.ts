import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import { endpoints, inline, Mesh, service, sidecar } from '../push/testing/mesh.ts';
import { type PageLimits, PageMaker } from './page-maker.ts';

/** The test controls the turns of the event loop. Each reading of the clock takes a millisecond. */
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

const client = (address = '192.0.2.1', closed = new AbortController()) => ({ address, closed: closed.signal });

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

test('an endpoint push reaches its proxy while a page is built', async () => {
  const mesh = new Mesh(inline, [service('shop', 'web'), endpoints('shop', 'web', '10.0.0.1')]);
  const { session, pushes } = mesh.connect(sidecar('10.0.0.9', 'shop'));
  await session.ready;
  await mesh.settled();
  const before = pushes.length;
  const { maker, turn, waiting } = controlled();
  let done = false;
  const made: number[] = [];
  const page = maker.make(() => pieces(100, made), client()).finally(() => (done = true));
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
  it('are built one at a time, in the order of requests', async () => {
    const { maker, turn } = controlled();
    const [first, second]: [number[], number[]] = [[], []];
    const pages = [
      maker.make(() => pieces(20, first), client('192.0.2.1')),
      maker.make(() => pieces(20, second), client('192.0.2.2')),
    ];
    while (await turn()) if (second.length > 0) assert.equal(first.length, 20);
    assert.equal((await Promise.all(pages)).length, 2);
  });

  it('are abandoned when the client closes the connection', async () => {
    const { maker, turn } = controlled();
    const [closed, made, next]: [AbortController, number[], number[]] = [new AbortController(), [], []];
    const left = failure(maker.make(() => pieces(1000, made), client('192.0.2.1', closed)));
    const leftWhileWaiting = failure(maker.make(() => assert.fail('made'), client('192.0.2.1', closed)));
    const page = maker.make(() => pieces(5, next), client('192.0.2.2'));
    await turn();
    closed.abort();
    while (await turn());
    assert.equal(await left, 'deadline_exceeded');
    assert.equal(await leftWhileWaiting, 'deadline_exceeded');
    assert.ok(made.length < 20);
    assert.equal((await page)?.bytes, 6);
  });

  it('that wait have a limit in total and for each address', async () => {
    const { maker, turn } = controlled({ maxWaiting: 5 });
    const ask = (address: string) => failure(maker.make(() => pieces(1), client(address)));
    const one = Array.from({ length: 10 }, () => ask('192.0.2.1'));
    const other = ask('192.0.2.2');
    const late = ask('192.0.2.3');
    while (await turn());
    const codes = await Promise.all(one);
    assert.deepEqual([codes.filter((code) => code === 'made').length, codes.at(-1)], [4, 'unavailable']);
    assert.deepEqual([await other, await late], ['made', 'unavailable']);
    assert.equal(await ask('192.0.2.1'), 'made', 'places are free again');
  });

  it('have limits of bytes and time, and an error in one does not stop another', async () => {
    const { maker, turn } = controlled({ maxBytes: 1 << 20, maxMs: 300 });
    const large = failure(maker.make(() => pieces(40, [], 'x'.repeat(65_536)), client()));
    const long = failure(maker.make(() => pieces(10_000), client()));
    const broken = failure(
      maker.make(() => {
        throw Object.assign(new Error('broken'), { code: 'broken' });
      }, client()),
    );
    const good = failure(maker.make(() => pieces(1), client()));
    while (await turn());
    assert.deepEqual(await Promise.all([large, long, broken, good]), [
      'resource_exhausted',
      'resource_exhausted',
      'broken',
      'made',
    ]);
  });

  it('for slow clients have a limit of bytes in total', async () => {
    const { maker, turn } = controlled({ maxUnsentBytes: 1000 });
    const ask = async (address: string) => {
      const page = maker.make(() => pieces(300), client(address));
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
