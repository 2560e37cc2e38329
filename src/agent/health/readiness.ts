/**
 * Ready is a proxy whose Envoy is LIVE and has acknowledged its first clusters and its first listeners. The acknowledgements are
 * looked for in Envoy's counters until they are there; from then on Envoy's own `/ready` is asked, which costs nothing.
 */

/** The names of the counters stand in Envoy's documentation, "Cluster manager" and "Listener manager" statistics. */
const CLUSTERS = 'cluster_manager.cds.update_success';
const LISTENERS = 'listener_manager.lds.update_success';
export const ACKNOWLEDGED_STATS = `/stats?usedonly&filter=${encodeURIComponent(`^(${CLUSTERS}|${LISTENERS})$`)}`;

/** Several probers, or an eager one, shall not each cost Envoy a request. */
const CACHE_MS = 250;

export interface ReadinessDeps {
  /** GET at Envoy's admin interface, bounded in time. */
  readonly admin: (path: string) => Promise<{ readonly status: number; readonly text: string }>;
  /** Milliseconds on a clock that only goes forward. */
  readonly now: () => number;
}

export interface Readiness {
  /** Undefined when ready, otherwise why not. */
  check(): Promise<string | undefined>;
  /** A new Envoy begins: what the one before had acknowledged does not count. */
  restarted(): void;
  /** Never ready again. */
  draining(): void;
}

export function createReadiness({ admin, now }: ReadinessDeps): Readiness {
  let acknowledged = false;
  let draining = false;
  let run = 0;
  let last: { readonly at: number; readonly answer: Promise<string | undefined> } | undefined;

  const ask = async (): Promise<string | undefined> => {
    const ready = await admin('/ready');
    if (ready.status !== 200) return `Envoy is ${ready.text.trim() || 'not live'}`;
    if (acknowledged) return undefined;
    const askedRun = run;
    const missing = missingAcknowledgement((await admin(ACKNOWLEDGED_STATS)).text);
    if (missing === undefined && askedRun === run) acknowledged = true;
    return missing;
  };

  return {
    async check() {
      if (draining) return 'draining';
      if (last === undefined || now() - last.at >= CACHE_MS) {
        const answer = ask().catch(
          (error: unknown) => `Envoy does not answer: ${error instanceof Error ? error.message : String(error)}`,
        );
        last = { at: now(), answer };
      }
      const answer = await last.answer;
      return draining ? 'draining' : answer;
    },
    restarted() {
      run++;
      acknowledged = false;
      last = undefined;
    },
    draining() {
      draining = true;
    },
  };
}

function missingAcknowledgement(stats: string): string | undefined {
  const has = (name: string) => stats.split('\n').some((line) => line.startsWith(`${name}: `) && !line.endsWith(': 0'));
  if (!has(CLUSTERS)) return 'no clusters have been acknowledged yet';
  return has(LISTENERS) ? undefined : 'no listeners have been acknowledged yet';
}
