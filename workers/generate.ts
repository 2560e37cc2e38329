/**
 * The piscina entry point of listener, cluster and route generation. Generation runs beside the main thread so that
 * watches, endpoint pushes and streams never wait for it. A thread that dies takes nothing with it but its replica.
 */
import { move, transferableSymbol, valueSymbol } from 'piscina';
import { delayOptimization } from '../src/core/v8-flags.ts';
import { Replica } from '../src/push/jobs/index.ts';
import type { GenerateTask } from '../src/push/protocol.ts';

// The program's own code is loaded before it starts its workers.
delayOptimization();

const replica = new Replica();

/** Runs one task; the answer's bytes are moved to the main thread instead of copied. */
export function run(task: GenerateTask): unknown {
  const answer = replica.run(task);
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
