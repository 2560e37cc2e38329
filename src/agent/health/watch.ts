/**
 * Logs when a proxy has become ready and, while it has not, why not: the log of an agent that waits (for a control
 * plane or a certificate) would otherwise be silent.
 */
import type { Logger } from '../../logging/index.ts';

/** The interval of checks. */
const PERIOD_MS = 1_000;
/** After this time a missing control plane or authority is reported. */
const PATIENCE_MS = 10_000;
/** Envoy's statistic of a stream to the control plane: documentation, "xDS" statistics. */
export const CONNECTED_STATS = `/stats?filter=${encodeURIComponent('^control_plane.connected_state$')}`;

interface WatchDeps {
  /** Undefined when ready; otherwise the reason. */
  readonly check: () => Promise<string | undefined>;
  /** Sends GET to Envoy's admin interface, with a time limit. */
  readonly admin: (path: string) => Promise<{ readonly text: string }>;
  /** `host:port`, for the message. */
  readonly controlPlane: string;
  /** Milliseconds on a clock that only goes forward. */
  readonly now: () => number;
  /** Resolves after the time or, early, when the signal aborts. */
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<unknown>;
  readonly log: Logger;
}

/** Checks until the proxy is ready or the signal aborts; never rejects. Each reason is logged once. */
export async function watchReadiness(deps: WatchDeps, signal: AbortSignal): Promise<void> {
  const start = deps.now();
  let loggedReason: string | undefined;
  for (;;) {
    const why = await deps.check();
    if (signal.aborted) return;
    const afterMs = Math.round(deps.now() - start);
    if (why === undefined) {
      deps.log.info('the proxy is ready', { afterMs });
      return;
    }
    if (afterMs >= PATIENCE_MS) {
      const reason = `${why}${await connection(deps)}`;
      if (signal.aborted) return;
      if (reason !== loggedReason) deps.log.warn(`the proxy is not ready yet: ${reason}`);
      loggedReason = reason;
    }
    await deps.sleep(PERIOD_MS, signal);
    if (signal.aborted) return;
  }
}

async function connection({ admin, controlPlane }: WatchDeps): Promise<string> {
  const text = await admin(CONNECTED_STATS).then(
    (answer) => answer.text,
    () => '',
  );
  return /: 0\s*$/.test(text) ? `; the proxy has no connection to the control plane at ${controlPlane}` : '';
}
