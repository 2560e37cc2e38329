/** `ctl-discovery discovery`: starts the service, runs until it is told to stop, stops it. */

import { getScope } from '../logging/index.ts';
import type { DiscoverySettings, Environment } from '../settings/index.ts';
import { DiscoveryProgram } from './program.ts';

/** Resolves with the signal's name; the second signal ends the process at once. */
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

/** The exit code: 0 after an orderly stop. Throws CtlError when the service cannot be started. */
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
