/**
 * Log lines about findings of generation that make calls fail (invalid listeners, missing credentials, unknown
 * authorizers): one line when a finding appears and one when it is resolved. `/debug/push_status` lists current
 * findings.
 */
import type { GenerationFinding } from '../../generate/index.ts';
import { type Logger, limitLog } from '../../logging/index.ts';
import type { Engine } from '../../push/index.ts';

/** Delay after a generation, ms: the views of one change are generated one after the other. */
const SETTLE_MS = 500;

type Metric = GenerationFinding['metric'];

/**
 * Findings that need an operator, because calls fail. The others are conflicts in which one document wins.
 */
const LOGGED: ReadonlySet<Metric> = new Set<Metric>([
  'ctl_invalid_out_listeners',
  'ctl_missing_credentials',
  'ctl_policy_problems',
  'ctl_telemetry_problems',
  'ctl_unsupported_by_grpc',
  'ctl_refused_inbound_ports',
]);

/** The largest number of findings in the log. More are in the debug interface only. */
const MAX_REMEMBERED = 1000;

export interface FindingLogOptions {
  /** The current findings of all views that proxies use. */
  readonly findings: () => Iterable<GenerationFinding>;
  readonly log: Pick<Logger, 'info' | 'warn'>;
  readonly later: (ms: number, run: () => void) => void;
}

/**
 * Findings of the views that proxies use. Unused views are not generated again, so their findings may be outdated.
 */
export function findingsOf(engine: Engine, wanted: (namespace: string) => boolean = () => true) {
  return [...engine.views()].flatMap((view) =>
    view.sessions.size > 0 && wanted(view.view.namespace) ? view.findings() : [],
  );
}

export class FindingLog {
  readonly #options: FindingLogOptions;
  readonly #found: (key: string, message: string) => void;
  readonly #resolved: (key: string, message: string) => void;
  #known: ReadonlySet<string> = new Set();
  #scheduled = false;

  constructor(options: FindingLogOptions) {
    this.#options = options;
    const { log, later } = options;
    this.#found = limitLog({ write: (message) => log.warn(message), later });
    this.#resolved = limitLog({ write: (message) => log.info(message), later });
  }

  /** Called after a view is generated. */
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
    for (const message of this.#known) if (!now.has(message)) this.#resolved(message, `resolved: ${message}`);
    this.#known = now;
  }
}
