/** The generation workers of the program. */
import { fileURLToPath } from 'node:url';
import { systemClock } from '../../core/clock.ts';
import { messageOf } from '../../core/errors.ts';
import { delayOptimization } from '../../core/process/v8-flags.ts';
import { getScope } from '../../logging/index.ts';
import type { Metrics } from '../../observe/index.ts';
import { workerUrl } from '../../paths.ts';
import { defaultWorkers, PoolGenerator } from '../../push/index.ts';
import type { DiscoverySettings } from '../../settings/index.ts';

/** Starts the workers, which then load their code. Undefined when the main thread generates. */
export function startGenerationPool(
  { generateWorkers }: DiscoverySettings,
  metrics: Metrics,
): PoolGenerator | undefined {
  const threads = generateWorkers < 0 ? defaultWorkers() : generateWorkers;
  if (threads === 0) {
    delayOptimization();
    return undefined;
  }
  return new PoolGenerator({
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
}
