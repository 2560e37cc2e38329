import assert from 'node:assert/strict';
import { constants, PerformanceObserver } from 'node:perf_hooks';
import { describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { ReadMemory, youngCollector } from './read-memory.ts';

const READ_BYTES = 64 * 1024;

describe('what sockets have read', () => {
  it('is collected each time that 16 MiB have come together', () => {
    let collections = 0;
    const memory = new ReadMemory(() => void collections++);
    const counts = [255, 1, 255, 1].map((reads) => {
      for (let read = 0; read < reads; read++) memory.count(READ_BYTES);
      return collections;
    });
    assert.deepEqual(counts, [0, 1, 1, 2]);
  });

  it('is collected with the young generation and nothing else', async () => {
    const asked: unknown[] = [];
    const observer = new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) {
        const { kind, flags }: { kind?: number; flags?: number } = Object(Reflect.get(entry, 'detail'));
        if (((flags ?? 0) & constants.NODE_PERFORMANCE_GC_FLAGS_FORCED) !== 0) asked.push(kind);
      }
    });
    observer.observe({ entryTypes: ['gc'] });
    youngCollector()();
    for (let wait = 0; wait < 500 && asked.length === 0; wait++) await setTimeout(2);
    observer.disconnect();
    assert.deepEqual(asked, [constants.NODE_PERFORMANCE_GC_MINOR]);
  });
});
