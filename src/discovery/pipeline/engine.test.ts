import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { fakeClock } from '../../core/testing/fake-clock.ts';
import { NO_EVENT } from '../../resources/index.ts';
import { publishChanges } from './engine.ts';

/**
 * @param batches of sources that follow one another
 * @param ms that each of them takes
 */
function bench(batches: number, ms = 0) {
  const done: string[] = [];
  const clock = fakeClock();
  const intake = {
    complete() {
      if (done.length >= batches) return undefined;
      done.push('batch');
      clock.hang(ms);
      return Promise.resolve();
    },
    take() {
      done.push('take');
      return { changes: [], eventTime: NO_EVENT };
    },
  };
  const publisher = {
    async publishInSlices() {
      done.push('publish');
    },
  };
  const stop = new AbortController();
  return { done, stop, publish: () => publishChanges(intake, publisher, 'all', stop.signal, clock.now) };
}

describe('changes of the intake', () => {
  it('are taken after a batch that begins while another one is waited for', async () => {
    const { done, publish } = bench(2);
    await publish();
    assert.deepEqual(done, ['batch', 'batch', 'take', 'publish']);
  });

  it('do not wait without limit', async () => {
    const { done, publish } = bench(Number.POSITIVE_INFINITY);
    await publish();
    assert.deepEqual(done.slice(-2), ['take', 'publish']);
  });

  it('wait for no further batch after half a second', async () => {
    const { done, publish } = bench(Number.POSITIVE_INFINITY, 200);
    await publish();
    assert.deepEqual(done, ['batch', 'batch', 'batch', 'take', 'publish']);
  });

  it('are not published when that is stopped meanwhile', async () => {
    const { done, stop, publish } = bench(1);
    const published = publish();
    stop.abort();
    await published;
    assert.deepEqual(done, ['batch']);
  });
});
