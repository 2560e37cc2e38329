import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { ReadMemory, youngCollector } from './read-memory.ts';

const READ_BYTES = 64 * 1024;

describe('what sockets have read', () => {
  it('is collected each time that 32 MiB have come together', () => {
    let collections = 0;
    const memory = new ReadMemory(() => void collections++);
    const counts = [511, 1, 511, 1].map((reads) => {
      for (let read = 0; read < reads; read++) memory.count(READ_BYTES);
      return collections;
    });
    assert.deepEqual(counts, [0, 1, 1, 2]);
  });

  it('is freed by that', async () => {
    const memory = new ReadMemory(youngCollector());
    const before = process.memoryUsage().arrayBuffers;
    for (let read = 0; read < 512; read++) memory.count(Buffer.allocUnsafeSlow(READ_BYTES).length);
    // Another thread frees what was collected.
    const left = (): number => process.memoryUsage().arrayBuffers - before;
    for (let wait = 0; wait < 500 && left() >= 4 * 1024 * 1024; wait++) await setTimeout(2);
    assert.ok(left() < 4 * 1024 * 1024, `${left()} bytes of 32 MiB are left`);
  });
});
