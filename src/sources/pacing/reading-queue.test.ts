import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import type { ReadingClass } from './reading-class.ts';
import { ReadingQueue } from './reading-queue.ts';
import { BURST_MS, COSTLY_MS, MAX_REST_MS, ReadingShares } from './reading-shares.ts';

/** A queue of documents named `<namespace>/<name>`, whose reading takes what `cost` returns. */
class Reader {
  now = 0;
  readonly shares = new ReadingShares(() => this.now);
  readonly queue = new ReadingQueue<number>(this.shares);
  readonly cost: (id: string) => number;

  constructor(cost: (id: string) => number = () => 1) {
    this.cost = cost;
  }

  set(id: string, version = 1, readingClass: ReadingClass = 'other'): void {
    this.queue.set(id, { namespace: id.split('/')[0] ?? '', readingClass }, version);
  }

  /** Reads one document, and returns its id and version. */
  read(): string | undefined {
    const next = this.queue.next();
    if (next === undefined) return undefined;
    const cost = this.cost(next.id);
    this.now += cost;
    this.shares.charge(next.place, cost);
    return `${next.id}@${next.item}`;
  }

  /** Reads all, also what has to wait for it. */
  readAll(): string[] {
    const read: string[] = [];
    for (;;) {
      const wait = this.queue.waitMs;
      if (wait === undefined) return read;
      this.now += wait;
      const one = this.read();
      if (one !== undefined) read.push(one);
    }
  }
}

describe('the queue of documents that wait to be read', () => {
  it('reads documents of namespaces in turn, and those of one namespace in their order', () => {
    const reader = new Reader();
    for (const id of ['a/1', 'a/2', 'a/3', 'b/1', 'c/1', 'c/2']) reader.set(id);
    assert.deepEqual(reader.readAll(), ['a/1@1', 'b/1@1', 'c/1@1', 'a/2@1', 'c/2@1', 'a/3@1']);
    assert.equal(reader.queue.size, 0);
  });

  it('keeps only the newest version of a document, in its place', () => {
    const reader = new Reader();
    reader.set('a/1');
    reader.set('a/2');
    for (let version = 2; version <= 1000; version++) reader.set('a/1', version);
    assert.equal(reader.queue.size, 2);
    assert.deepEqual(reader.readAll(), ['a/1@1000', 'a/2@1']);
  });

  it('reads no document that was removed while it waited', () => {
    const reader = new Reader();
    for (const id of ['a/1', 'a/2', 'b/1']) reader.set(id);
    reader.queue.delete('a/1');
    reader.queue.delete('b/1');
    assert.deepEqual(reader.readAll(), ['a/2@1']);
  });

  it('does not forgive the time that a namespace has used while it rests', () => {
    const reader = new Reader(() => BURST_MS);
    for (const id of ['flood/1', 'flood/2']) reader.set(id);
    reader.read();
    assert.equal(reader.read(), undefined);
    assert.deepEqual(
      ['flood', 'shop'].map((namespace) => reader.shares.times.usedBy(namespace)),
      [BURST_MS, 0],
    );
  });

  it('has a namespace rest whose costly documents have used its time, and others go on meanwhile', () => {
    const reader = new Reader((id) => (id.startsWith('flood/') ? BURST_MS : 1));
    for (const id of ['flood/1', 'flood/2']) reader.set(id);
    assert.equal(reader.read(), 'flood/1@1');
    assert.equal(reader.read(), undefined);
    assert.equal(reader.queue.waitMs, 4 * BURST_MS);
    reader.set('shop/1');
    assert.equal(reader.queue.waitMs, 0);
    assert.equal(reader.read(), 'shop/1@1');
    reader.now += 4 * BURST_MS;
    assert.equal(reader.read(), 'flood/2@1');
  });

  it('lets a namespace with many cheap documents read on', () => {
    const reader = new Reader(() => COSTLY_MS / 2);
    for (let number = 0; number < 1000; number++) reader.set(`a/${number}`);
    assert.equal(reader.readAll().length, 1000);
    assert.equal(reader.now, 500 * COSTLY_MS);
  });

  it('limits the rest after a document of any cost', () => {
    const reader = new Reader(() => 60_000);
    for (const id of ['a/1', 'a/2']) reader.set(id);
    assert.equal(reader.read(), 'a/1@1');
    assert.equal(reader.read(), undefined);
    assert.equal(reader.queue.waitMs, MAX_REST_MS);
  });

  it('reads policies and workloads of a namespace that rests, before its other documents', () => {
    const reader = new Reader((id) => (id.startsWith('flood/route') ? BURST_MS : 1));
    for (let number = 0; number < 100; number++) reader.set(`flood/route-${number}`);
    assert.equal(reader.read(), 'flood/route-0@1');
    assert.equal(reader.read(), undefined);
    reader.set('flood/endpoints', 1, 'workloads');
    reader.set('flood/deny', 1, 'security');
    assert.equal(reader.queue.waitMs, 0);
    assert.equal(reader.read(), 'flood/deny@1');
    assert.equal(reader.read(), 'flood/endpoints@1');
    assert.equal(reader.read(), undefined);
  });

  it('shares the time of policies among namespaces, and leaves other documents a part of it', () => {
    const reader = new Reader((id) => (id.startsWith('flood/') ? BURST_MS : 1));
    for (let number = 0; number < 50; number++) reader.set(`flood/policy-${number}`, 1, 'security');
    reader.read();
    reader.set('shop/deny', 1, 'security');
    for (const name of ['a', 'b', 'c']) reader.set(`shop/${name}`);
    const read = reader.readAll().slice(0, 6);
    assert.ok(read.indexOf('shop/deny@1') >= 0, read.join());
    for (const name of ['a', 'b', 'c']) assert.ok(read.includes(`shop/${name}@1`), read.join());
  });

  it('delays a document by at most one of a namespace that floods, whatever these cost', () => {
    const cost = fc.integer({ min: 1, max: 2000 });
    const flood = fc.array(fc.record({ cost, before: fc.boolean() }), { minLength: 1, maxLength: 50 });
    fc.assert(
      fc.property(flood, fc.nat(20), fc.integer({ min: 1, max: 4 }), (documents, readFirst, own) => {
        const costs = new Map(documents.map((each, index) => [`flood/${index}`, each.cost]));
        const reader = new Reader((id) => costs.get(id) ?? own);
        // The flood has gone on for a while, and goes on.
        for (const [index, { before }] of documents.entries()) if (before) reader.set(`flood/${index}`);
        for (let count = 0; count < readFirst; count++) reader.read();
        reader.set('shop/web');
        for (const [index, { before }] of documents.entries()) if (!before) reader.set(`flood/${index}`);
        const read = reader.readAll();
        assert.ok(read.indexOf('shop/web@1') <= 1, read.join());
        assert.equal(new Set(read).size, read.length);
      }),
    );
  });
});
