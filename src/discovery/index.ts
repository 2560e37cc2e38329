/** `ctl-discovery discovery`: runs the service until a signal stops it. */

import { getScope } from '../logging/index.ts';
import type { DiscoverySettings, Environment } from '../settings/index.ts';
import { DiscoveryProgram } from './program.ts';

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
  const program = new DiscoveryProgram(settings, env);
  const stopped = stopSignal();
  try {
    const started = program.start();
    const signal = await Promise.race([stopped, started.then(() => stopped)]);
    getScope('default').info(`${signal}: stopping`);
    return 0;
  } finally {
    await program.stop();
  }
}
