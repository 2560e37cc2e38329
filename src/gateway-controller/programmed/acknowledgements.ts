/**
 * Which listeners the proxies of Gateways have acknowledged, whichever replica they are connected to:
 *
 *   streams of proxies ─▶ connected proxies ─┬─ where this replica leads ─▶ statuses
 *                                            └─ elsewhere ─▶ Lease of the replica ─▶ replica that leads ─▶ statuses
 */
import { createFailureLog } from '../../core/log.ts';
import type { ProxyNode } from '../../core/proxy.ts';
import type { ConnectedProxy } from '../../xds/index.ts';
import { ConnectedProxies, type ConnectedProxiesOptions } from './connected-proxies.ts';
import { ReplicaReports } from './replica-reports.ts';
import { encodeReport, type GatewayReport } from './report.ts';
import { ReportLease, type ReportLeaseOptions } from './report-lease.ts';

/** The part that the Gateway controller uses. */
export interface Acknowledgements {
  /** What the proxies of a Gateway (`namespace/name`) have acknowledged, by replica. */
  of(gateway: string): readonly GatewayReport[];
  /** This replica leads until the returned function is called; `onChanged` is called with Gateways. */
  follow(onChanged: (gateways: readonly string[]) => void): () => Promise<void>;
}

export type AcknowledgedListenersOptions = Omit<ReportLeaseOptions, 'report'> &
  Omit<ConnectedProxiesOptions, 'onChanged'>;

export class AcknowledgedListeners implements Acknowledgements {
  readonly #options: AcknowledgedListenersOptions;
  readonly #proxies: ConnectedProxies;
  readonly #lease: ReportLease;
  /** Undefined when this replica does not lead. */
  #leading: { readonly others: ReplicaReports; onChanged(gateways: readonly string[]): void } | undefined;

  constructor(options: AcknowledgedListenersOptions) {
    this.#options = options;
    this.#proxies = new ConnectedProxies({
      ...options,
      onChanged: (gateways) =>
        this.#leading === undefined ? this.#lease.changed() : this.#leading.onChanged(gateways),
    });
    const what = 'the report about gateway proxies';
    const tooLarge = createFailureLog(options.log, `${what} is too large`, `${what} is complete again`);
    this.#lease = new ReportLease({
      ...options,
      report: () => {
        if (this.#leading !== undefined) return undefined;
        const report = this.#proxies.report();
        const { text, left } = encodeReport(report);
        if (left > 0) tooLarge.failed(`${left} Gateways are left out; their new listeners will not become Programmed`);
        else tooLarge.succeeded();
        return report.size === 0 ? undefined : text;
      },
    });
  }

  /** See `WorkloadConnected`. */
  connected(node: ProxyNode, proxy: ConnectedProxy): ReturnType<ConnectedProxies['connected']> {
    return this.#proxies.connected(node, proxy);
  }

  /** The listeners of these Gateways (`namespace/name`) have changed, in a snapshot that is published at once. */
  changed(gateways: readonly string[]): void {
    this.#proxies.changed(gateways);
  }

  of(gateway: string): readonly GatewayReport[] {
    const own = this.#proxies.of(gateway);
    const others = this.#leading?.others.of(gateway) ?? [];
    return own === undefined ? others : [own, ...others];
  }

  follow(onChanged: (gateways: readonly string[]) => void): () => Promise<void> {
    const others = new ReplicaReports({ ...this.#options, onChanged });
    const leading = { others, onChanged };
    this.#leading = leading;
    others.start();
    this.#lease.changed();
    return async () => {
      if (this.#leading === leading) this.#leading = undefined;
      this.#lease.changed();
      await others.close();
    };
  }

  async close(): Promise<void> {
    this.#proxies.close();
    await this.#lease.close();
  }
}
