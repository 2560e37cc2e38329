import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import type { Deflated } from '../../../grpc/index.ts';
import { CompressedBodies } from './compressed-bodies.ts';

const LENGTH = 20_000;

function body(length = LENGTH): Uint8Array {
  return new Uint8Array(length);
}

/** Bodies whose compression ends when the test says so. */
function held() {
  const running: { readonly body: Uint8Array; end(length?: number): Promise<void>; fail(): Promise<void> }[] = [];
  let now = 0;
  const pass = (ms: number): void => {
    now += ms;
  };
  const deflate = (of: Uint8Array): Promise<Deflated> => {
    const { promise, resolve, reject } = Promise.withResolvers<Deflated>();
    const end = async (length = 100): Promise<void> => {
      resolve({ blocks: new Uint8Array(length), bytes: of.length, checksum: 0, factor: 0 });
      await turn();
    };
    const fail = async (): Promise<void> => {
      reject(new Error('out of memory'));
      await turn();
    };
    running.push({ body: of, end, fail });
    return promise;
  };
  return { bodies: new CompressedBodies(deflate, () => now), running, pass };
}

describe('a body of responses', () => {
  it('is compressed once, from the second stream on, and no stream waits for that', async () => {
    const { bodies, running } = held();
    const one = body();
    assert.deepEqual([bodies.of(one, 'a'), running.length], [undefined, 0]);
    assert.deepEqual([bodies.of(one, 'a'), running.length], [undefined, 1]);
    assert.deepEqual([bodies.of(one, 'a'), running.length], [undefined, 1]);
    await running[0]?.end();
    const compressed = bodies.of(one, 'a');
    assert.equal(compressed?.bytes, LENGTH);
    assert.equal(bodies.of(one, 'a'), compressed);
    assert.equal(running.length, 1);
    // Another one with the same content is another one.
    assert.equal(bodies.of(body(), 'a'), undefined);
  });

  it('is sent as it is where it is short, does not get shorter, or cannot be compressed', async () => {
    const { bodies, running } = held();
    const short = body(16_000);
    for (let stream = 0; stream < 5; stream++) assert.equal(bodies.of(short, 'a'), undefined);
    assert.equal(running.length, 0);
    const [dense, failing] = [body(), body()];
    for (const each of [dense, dense, failing, failing]) bodies.of(each, 'a');
    await running[0]?.end(LENGTH * 0.9);
    await running[1]?.fail();
    for (const each of [dense, failing]) assert.equal(bodies.of(each, 'a'), undefined);
    await turn();
    assert.equal(running.length, 2);
  });

  it('waits while another one is compressed; beyond 64 of a caller, further ones are sent as they are', async () => {
    const { bodies, running } = held();
    const all = Array.from({ length: 70 }, () => body());
    for (const each of [...all, ...all]) bodies.of(each, 'a');
    for (let ended = 0; ended < running.length; ended++) {
      assert.equal(running.length, ended + 1);
      await running[ended]?.end();
    }
    assert.equal(running.length, 65);
    assert.equal(all.filter((each) => bodies.of(each, 'a') !== undefined).length, 65);
    // The next time they have a turn.
    assert.equal(running.at(-1)?.body, all[65]);
  });

  it('of another caller is compressed in turn, however many bodies the first one has', async () => {
    const { bodies, running } = held();
    const [many, other] = [Array.from({ length: 1000 }, () => body()), body()];
    for (const each of [...many, ...many]) bodies.of(each, 'a');
    for (let stream = 0; stream < 2; stream++) bodies.of(other, 'b');
    for (let ended = 0; ended < 2; ended++) await running[ended]?.end();
    assert.ok(running.slice(0, 3).some(({ body: compressed }) => compressed === other));
  });

  it('of another caller waits as long as that caller has used time, not for the expensive ones of the first', async () => {
    const { bodies, running, pass } = held();
    const several = (length: number) => Array.from({ length: 20 }, () => body(length));
    const [large, small] = [several(50_000), several(20_000)];
    for (const each of [...large, ...large]) bodies.of(each, 'a');
    for (const each of [...small, ...small]) bodies.of(each, 'b');
    for (let ended = 0; ended < 24; ended++) {
      pass(running[ended]?.body.length === 50_000 ? 100 : 10);
      await running[ended]?.end();
    }
    const order = running.slice(0, 24).map(({ body: { length } }) => (length === 50_000 ? 'a' : 'b'));
    // In 340 ms of compression each caller has had about half.
    assert.ok(order.filter((caller) => caller === 'b').length >= 20, order.join(''));
  });

  it('does not keep the program from ending while it waits', async () => {
    const { bodies, running } = held();
    const all = Array.from({ length: 5 }, () => body());
    for (const each of [...all, ...all]) bodies.of(each, 'a');
    bodies.close();
    await running[0]?.end();
    assert.equal(running.length, 1);
  });
});
