/** In place of Envoy's supervisor, for an agent that runs none (DISABLE_ENVOY): it ends when it is told to. */
import type { EnvoyEnd, Supervisor } from './supervisor.ts';

export function withoutEnvoy(): Supervisor {
  const ended = Promise.withResolvers<EnvoyEnd>();
  return {
    ended: ended.promise,
    pid: () => undefined,
    retire: () => undefined,
    // An Envoy serves until then; so does the agent, for applications that end as well.
    signal: () => ended.resolve({ kind: 'stopped' }),
  };
}
