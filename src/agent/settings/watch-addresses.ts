/**
 * Warns when the machine gets its first address of an address family after the proxy was started, as by router
 * advertisement or DHCP at boot: listeners follow the addresses that the node reported, so that this family's
 * redirected connections are refused until the agent is started again.
 */
import { isIP } from 'node:net';
import type { Logger } from '../../logging/index.ts';

/** How often is looked. */
const PERIOD_MS = 5_000;

interface WatchAddressesDeps {
  /** What the node reported. */
  readonly reported: readonly string[];
  /** The machine's addresses now, without loopback and link-local ones. */
  readonly current: () => readonly string[];
  /** Resolves after the time or, early, when the signal aborts. */
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<unknown>;
  readonly log: Pick<Logger, 'warn'>;
}

/** Looks until a family has come up or the signal aborts; never rejects. */
export async function watchAddresses(deps: WatchAddressesDeps, signal: AbortSignal): Promise<void> {
  const served = new Set(deps.reported.map(isIP));
  while (!signal.aborted && served.size < 2) {
    const address = deps.current().find((each) => !served.has(isIP(each)));
    if (address !== undefined) {
      const family = isIP(address) === 6 ? 'IPv6' : 'IPv4';
      deps.log.warn(
        `this machine has an ${family} address now (${address}), which it had not when the agent started: the proxy does not listen on ${family} until the agent is started again`,
      );
      return;
    }
    await deps.sleep(PERIOD_MS, signal);
  }
}
