/** Requests to end the agent, from signals and `/quitquitquit`. */
import { getScope } from '../../logging/index.ts';

export interface EndRequests {
  /** Settles at the first signal; `now`: without draining. */
  readonly requested: Promise<{ readonly kind: 'requested'; readonly now: boolean }>;
  /** Settles at the second signal. */
  readonly forced: Promise<void>;
  readonly request: (now: boolean) => void;
  readonly close: () => void;
}

/**
 * Signals whose default action ends a process, see signal(7). Without a handler, the agent could not terminate Envoy
 * before it ends. Node.js reports `SIGPIPE` and `SIGXFSZ` as errors of the call instead; `SIGUSR1` is its own.
 */
const ENDING = [
  'SIGTERM',
  'SIGINT',
  'SIGHUP',
  'SIGQUIT',
  'SIGALRM',
  'SIGVTALRM',
  'SIGIO',
  'SIGPWR',
  'SIGSTKFLT',
  'SIGXCPU',
] as const satisfies readonly NodeJS.Signals[];
/** Tools such as log rotation send it to have log files reopened: it must not end the proxy. */
const IGNORED = 'SIGUSR2';

/** From now on, signals are handled as requests to end. */
export function watchEndRequests(): EndRequests {
  const first = Promise.withResolvers<{ readonly kind: 'requested'; readonly now: boolean }>();
  const second = Promise.withResolvers<void>();
  let requests = 0;
  const request = (now: boolean): void => {
    requests++;
    if (requests === 1) first.resolve({ kind: 'requested', now });
    else second.resolve();
  };
  const onSignal = (signal: NodeJS.Signals): void => {
    getScope('default').info(requests === 0 ? 'the agent is stopping' : 'the agent stops without draining', { signal });
    request(false);
  };
  const onIgnored = (): void => getScope('default').info(`${IGNORED} is ignored`);
  for (const signal of ENDING) process.on(signal, onSignal);
  process.on(IGNORED, onIgnored);
  const close = (): void => {
    for (const signal of ENDING) process.off(signal, onSignal);
    process.off(IGNORED, onIgnored);
  };
  return { requested: first.promise, forced: second.promise, request, close };
}
