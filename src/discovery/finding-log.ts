/**
 * Log lines about what proxies are not served, or refuse, because something is missing or wrong (listeners,
 * credentials, authorizers): one when it is found, one when it is over. `/debug/push_status` lists what is found now.
 */
import type { GenerationFinding } from '../generate/types.ts';
import { type Logger, limitLog } from '../logging/index.ts';

/** After a generation, ms: the views of one change are generated one after the other. */
const SETTLE_MS = 500;

type Metric = GenerationFinding['metric'];

/**
 * Findings that an operator has to act on, since calls fail because of them. The others are conflicts that have a
 * winner.
 */
const LOGGED: ReadonlySet<Metric> = new Set<Metric>([
  'ctl_invalid_out_listeners',
  'ctl_missing_credentials',
  'ctl_policy_problems',
  'ctl_refused_inbound_ports',
]);

/** Findings that are remembered; what there is beyond is in the debug interface alone. */
const MAX_REMEMBERED = 1000;

export interface FindingLogOptions {
  /** What is found now, of all views that proxies have. */
  readonly findings: () => Iterable<GenerationFinding>;
  readonly log: Pick<Logger, 'info' | 'warn'>;
  readonly later: (ms: number, run: () => void) => void;
}

export class FindingLog {
  readonly #options: FindingLogOptions;
  readonly #found: (key: string, message: string) => void;
  readonly #over: (key: string, message: string) => void;
  #known: ReadonlySet<string> = new Set();
  #scheduled = false;

  constructor(options: FindingLogOptions) {
    this.#options = options;
    const { log, later } = options;
    this.#found = limitLog({ write: (message) => log.warn(message), later });
    this.#over = limitLog({ write: (message) => log.info(message), later });
  }

  /** Some view has been generated. */
  generated(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    this.#options.later(SETTLE_MS, () => {
      this.#scheduled = false;
      this.#compare();
    });
  }

  #compare(): void {
    const now = new Set<string>();
    for (const { metric, message } of this.#options.findings()) {
      if (LOGGED.has(metric) && now.size < MAX_REMEMBERED) now.add(message);
    }
    for (const message of now) if (!this.#known.has(message)) this.#found(message, `not served: ${message}`);
    for (const message of this.#known) if (!now.has(message)) this.#over(message, `no longer: ${message}`);
    this.#known = now;
  }
}
