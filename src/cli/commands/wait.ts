/** `ctl-agent wait`: waits until the proxy is ready. */
import { setTimeout as sleep } from 'node:timers/promises';
import { messageOf } from '../../core/errors.ts';
import { httpCall } from '../../core/network/http-call.ts';
import { closeLogging, getScope } from '../../logging/index.ts';
import { agentWaitFlags, flagSettings } from '../../settings/index.ts';
import { unavailable } from '../errors.ts';
import { startLogging } from '../logging.ts';
import { type Command, command } from '../program.ts';

/** The dependencies of waiting. `probe` resolves with the HTTP status, or rejects with the reason. */
export interface WaitDeps {
  readonly now: () => number;
  readonly sleep: (ms: number) => Promise<unknown>;
  readonly probe: (url: string, timeoutMs: number) => Promise<number>;
}

interface WaitOptions {
  readonly url: string;
  readonly timeoutMs: number;
  readonly periodMs: number;
  readonly requestTimeoutMs: number;
}

const realDeps: WaitDeps = {
  now: () => performance.now(),
  sleep: (ms) => sleep(ms),
  probe: (url, timeoutMs) =>
    httpCall({ to: new URL(url), timeoutMs }, (response) => {
      response.destroy();
      return response.statusCode ?? 0;
    }),
};

export function waitCommand(): Command {
  return command({
    name: 'wait',
    summary: 'Wait until the proxy is ready.',
    flags: agentWaitFlags,
    async run({ flags }) {
      const settings = flagSettings(agentWaitFlags, flags);
      startLogging(settings, 'ctl-agent');
      const log = getScope('default');
      try {
        log.info('waiting for the proxy to be ready', { url: settings.url, timeoutSeconds: settings.timeoutSeconds });
        await waitUntilReady(
          {
            url: settings.url,
            timeoutMs: settings.timeoutSeconds * 1000,
            periodMs: settings.periodMillis,
            requestTimeoutMs: settings.requestTimeoutMillis,
          },
          realDeps,
          (why) => log.debug('the proxy is not ready', { why }),
        );
        log.info('the proxy is ready');
      } finally {
        closeLogging();
      }
      return 0;
    },
  });
}

/**
 * Calls the URL every period until it returns HTTP 200: at once for the first time, for the last time before the
 * timeout. Rejects with a `CtlError` with the last reason when the timeout has passed.
 */
export async function waitUntilReady(
  options: WaitOptions,
  deps: WaitDeps,
  notReady: (why: string) => void,
): Promise<void> {
  const deadline = deps.now() + options.timeoutMs;
  for (;;) {
    const left = deadline - deps.now();
    // A timeout of 0 means one call.
    const timeoutMs = options.timeoutMs === 0 ? options.requestTimeoutMs : Math.min(options.requestTimeoutMs, left);
    const why = await deps.probe(options.url, Math.max(1, timeoutMs)).then(
      (status) => (status === 200 ? '' : `status ${status}`),
      (error: unknown) => messageOf(error),
    );
    if (why === '') return;
    notReady(why);
    if (deps.now() + options.periodMs >= deadline) {
      throw unavailable(`the proxy was not ready within ${options.timeoutMs / 1000} seconds: ${why}`);
    }
    await deps.sleep(options.periodMs);
  }
}
