/**
 * The piscina entry point of generation. It runs in worker threads so that watches, endpoint pushes and streams never
 * wait for it. A thread that dies loses nothing but its mesh copy.
 */
import { move, transferableSymbol, valueSymbol } from 'piscina';
import { nameThread } from '../src/core/process/thread-name.ts';
import { delayOptimization } from '../src/core/process/v8-flags.ts';
import { MeshCopy } from '../src/push/jobs/index.ts';
import type { GenerateTask } from '../src/push/protocol.ts';

nameThread('generate');
// The main thread has loaded its code by now: see v8-flags.
delayOptimization();

const copy = new MeshCopy();

/** Runs one task; the answer's bytes are moved to the main thread instead of copied. */
export function run(task: GenerateTask): unknown {
  const answer = copy.run(task);
  if (answer.kind !== 'done') return answer;
  return move({
    get [transferableSymbol]() {
      return [answer.bytes];
    },
    get [valueSymbol]() {
      return answer;
    },
  } as Parameters<typeof move>[0]);
}
