/**
 * Warns when the machine gets its first address of an address family after the proxy was started, for example by router
 * advertisement or DHCP at boot. Envoy listens in the families of the addresses that the node reported, so redirected
 * connections of the new family are refused until the agent is restarted.
 */
import { isIP } from 'node:net';
import type { Logger } from '../../logging/index.ts';

/** The interval of checks. */
const PERIOD_MS = 5_000;

interface WatchAddressesDeps {
  /** The addresses that the node reported. */
  readonly reported: readonly string[];
  /** The machine's current addresses, without loopback and link-local ones. */
  readonly current: () => readonly string[];
  /** Resolves after the time or, early, when the signal aborts. */
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<unknown>;
  readonly log: Pick<Logger, 'warn'>;
}

/** Checks until a family has appeared or the signal aborts; never rejects. */
export async function watchAddresses(deps: WatchAddressesDeps, signal: AbortSignal): Promise<void> {
  const served = new Set(deps.reported.map(isIP));
  while (!signal.aborted && served.size < 2) {
    const address = deps.current().find((each) => !served.has(isIP(each)));
    if (address !== undefined) {
      const family = isIP(address) === 6 ? 'IPv6' : 'IPv4';
      deps.log.warn(
        `this machine has an ${family} address now (${address}), which it did not have when the agent started: ` +
          `the proxy does not listen on ${family} until the agent is restarted`,
      );
      return;
    }
    await deps.sleep(PERIOD_MS, signal);
  }
}
