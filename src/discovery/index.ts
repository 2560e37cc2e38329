/** `ctl-discovery discovery`: runs the service until a signal stops it. */

import { Closers } from '../core/process/closers.ts';
import { getScope } from '../logging/index.ts';
import type { DiscoverySettings, Environment } from '../settings/index.ts';
import { startProgram } from './program.ts';

/** Resolves with the name of the first signal. The second signal ends the process at once. */
function stopSignal(): Promise<string> {
  return new Promise((resolve) => {
    let asked = false;
    const onSignal = (signal: string): void => {
      if (asked) process.exit(1);
      asked = true;
      resolve(signal);
    };
    process.on('SIGTERM', onSignal);
    process.on('SIGINT', onSignal);
  });
}

/** Resolves with exit code 0 after an orderly stop. Rejects with CtlError when the service cannot start. */
export async function runDiscovery(settings: DiscoverySettings, env: Environment): Promise<number> {
  const log = getScope('default');
  const closers = new Closers(log);
  const stopped = stopSignal();
  try {
    const started = startProgram(settings, env, closers);
    const signal = await Promise.race([stopped, started.then(() => stopped)]);
    log.info(`${signal}: stopping`);
    return 0;
  } finally {
    await closers.close();
  }
}
