import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ReadingLoop as Loop } from '../testing/reading-loop.ts';

describe('reading objects', () => {
  it('reads little at once, and reports it together', () => {
    const loop = new Loop();
    loop.add(1, 'a/1', 'b/1', 'a/2');
    assert.equal(loop.read.join(' '), 'a/1 b/1 a/2 |');
    loop.turn();
    assert.ok(loop.isIdle);
  });

  it('reads much in slices of 10 ms, between which the event loop turns', () => {
    const loop = new Loop();
    loop.add(4, ...Array.from({ length: 7 }, (_, index) => `a/${index}`));
    assert.equal(loop.read.join(' '), 'a/0 a/1 a/2 |');
    assert.equal(loop.turn(), 'a/3 a/4 a/5 |');
    assert.equal(loop.turn(), 'a/6 |');
    loop.turn();
    assert.ok(loop.isIdle);
  });

  it('reads no more at once in the turn in which a slice was used up', () => {
    const loop = new Loop();
    loop.add(12, 'a/1');
    loop.add(1, 'b/1');
    assert.equal(loop.read.join(' '), 'a/1 |');
    assert.equal(loop.turn(), 'b/1 |');
  });

  it('reads the object of another namespace next, while a namespace floods', () => {
    const loop = new Loop();
    loop.add(100, ...Array.from({ length: 20 }, (_, index) => `flood/${index}`));
    assert.equal(loop.read.join(' '), 'flood/0 |');
    loop.turn();
    loop.add(1, 'shop/web');
    assert.equal(loop.read.join(' '), 'shop/web |');
    const rest: string[] = [];
    while (!loop.isIdle) {
      loop.wait();
      rest.push(...loop.turn().split(' '));
    }
    assert.equal(rest.filter((id) => id.startsWith('flood/')).length, 19);
  });

  it('reads nothing after it was closed', () => {
    const loop = new Loop();
    loop.add(20, 'a/1', 'a/2');
    loop.reading.close();
    assert.equal(loop.turn(), '');
    loop.add(1, 'b/1');
    assert.equal(loop.turn(), '');
  });
});
