/** Where the program generates: on worker threads, or on the main thread. */
import { fileURLToPath } from 'node:url';
import { systemClock } from '../../core/clock.ts';
import { messageOf } from '../../core/errors.ts';
import type { Closers } from '../../core/process/closers.ts';
import { delayOptimization } from '../../core/process/v8-flags.ts';
import { getScope } from '../../logging/index.ts';
import type { MeshSnapshot } from '../../model/index.ts';
import type { Metrics } from '../../observe/index.ts';
import { workerUrl } from '../../paths.ts';
import { defaultWorkers, type Generator, InlineGenerator, PoolGenerator, type Previewer } from '../../push/index.ts';
import type { DiscoverySettings } from '../../settings/index.ts';

/** Begins with the first snapshot. Called once. */
export type BeginGeneration = (first: MeshSnapshot) => Generator & Previewer;

/** Starts the workers, if any, which then load their code. */
export function startGeneration(
  { generateWorkers }: DiscoverySettings,
  metrics: Metrics,
  closers: Closers,
): BeginGeneration {
  const threads = generateWorkers < 0 ? defaultWorkers() : generateWorkers;
  if (threads === 0) {
    delayOptimization();
    return (first) => closers.use(new InlineGenerator(first));
  }
  const pool = new PoolGenerator({
    threads,
    workerFile: fileURLToPath(workerUrl('generate')),
    onCrash: (error) => {
      metrics.ctl_total_xds_internal_errors.inc();
      const reason = messageOf(error);
      getScope('ads').error(`a generation worker crashed and is restarted: ${reason}`);
    },
    later: systemClock.setTimer,
    random: Math.random,
  });
  closers.use(pool);
  return (first) => {
    pool.begin(first);
    pool.prepare();
    return pool;
  };
}
