/** Says in the log what it costs that sidecars get all services, and what on demand would save. */
import type { Clock, Timer } from '../../core/clock.ts';
import type { Log } from '../../core/log.ts';
import { type CostOfAll, costOfAll } from '../../xds/index.ts';

/** After a start, proxies reconnect within a minute. */
const CHECK_MS = 60_000;
/** The shortest time between two lines, ms. */
const PERIOD_MS = 3_600_000;
/** The bytes of all sidecars have to change by this factor for another line. */
const FACTOR = 2;
/** In smaller meshes it would save little. */
const MIN_HOSTS = 100;
/** Services that a workload calls, for the comparison. */
const CALLED = 30;

export interface CostLogOptions {
  readonly sessions: () => Parameters<typeof costOfAll>[0];
  readonly clock: Clock;
  readonly log: Pick<Log, 'info'>;
}

export class CostLog {
  readonly #options: CostLogOptions;
  #last: number | undefined;
  #timer: Timer | undefined;

  constructor(options: CostLogOptions) {
    this.#options = options;
    this.#later(CHECK_MS);
  }

  close(): Promise<void> {
    this.#timer?.cancel();
    return Promise.resolve();
  }

  #later(ms: number): void {
    this.#timer = this.#options.clock.setTimer(ms, () => this.#check());
  }

  #check(): void {
    const cost = costOfAll(this.#options.sessions());
    const isNews =
      cost !== undefined && cost.hosts >= MIN_HOSTS && isOther(cost.bytes, this.#last ?? Number.POSITIVE_INFINITY);
    if (isNews) {
      this.#last = cost.bytes;
      this.#options.log.info(lineOf(cost));
    }
    this.#later(isNews ? PERIOD_MS : CHECK_MS);
  }
}

function isOther(bytes: number, last: number): boolean {
  return bytes >= last * FACTOR || bytes * FACTOR <= last;
}

function lineOf({ sidecars, bytes, hosts, bytesOfOne }: CostOfAll): string {
  const called = (bytesOfOne / hosts) * CALLED;
  return (
    `${sidecars} sidecars have all services that they see: ${size(bytes)} of configuration, ${size(bytesOfOne)} each ` +
    `for ${hosts} hosts. With CTL_SIDECAR_CONFIGURATION=learned, one that calls ${CALLED} of them has about ` +
    size(called)
  );
}

function size(bytes: number): string {
  const units = ['kB', 'MB', 'GB', 'TB'];
  let [value, unit] = [bytes / 1000, 0];
  for (; value >= 1000 && unit < units.length - 1; unit++) value /= 1000;
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}
