/**
 * Which listeners the proxies of Gateways have acknowledged, whichever replica they are connected to:
 *
 *   streams of proxies ─▶ connected proxies ─┬─ where this replica leads ─▶ statuses
 *                                            └─ elsewhere ─▶ Lease of the replica ─▶ replica that leads ─▶ statuses
 */
import { createFailureLog } from '../../core/log.ts';
import type { ProxyNode } from '../../core/proxy.ts';
import { ReplicaReports, type ReportKind, ReportLease, type ReportLeaseOptions } from '../../object-status/index.ts';
import { ConnectedProxies, type ConnectedProxiesOptions } from './connected-proxies.ts';
import type { ObservedProxy } from './noted-proxy.ts';
import { decodeGateway, encodeReport, type GatewayReport } from './report.ts';

/** The part that the Gateway controller uses. */
export interface Acknowledgements {
  /** What the proxies of a Gateway (`namespace/name`) have acknowledged, by replica. */
  of(gateway: string): readonly GatewayReport[];
  /** This replica leads until the returned function is called; `onChanged` is called with Gateways. */
  follow(onChanged: (gateways: readonly string[]) => void): () => Promise<void>;
}

export type AcknowledgedListenersOptions = Omit<ReportLeaseOptions, 'report' | 'kind'> &
  Omit<ConnectedProxiesOptions, 'onChanged'> & {
    /** Replicas of one revision read each other's reports. */
    readonly revision: string;
  };

const reportsOf = (revision: string): ReportKind => ({
  prefix: 'meshd-gateways-',
  label: 'gateway.mesh.io/report',
  group: revision,
  annotation: 'gateway.mesh.io/acknowledged',
  about: 'gateway proxies',
});

export class AcknowledgedListeners implements Acknowledgements {
  readonly #options: AcknowledgedListenersOptions & { readonly kind: ReportKind };
  readonly #proxies: ConnectedProxies;
  readonly #lease: ReportLease;
  /** Undefined when this replica does not lead. */
  #leading: { readonly others: ReplicaReports; onChanged(gateways: readonly string[]): void } | undefined;

  constructor(options: AcknowledgedListenersOptions) {
    const kind = reportsOf(options.revision);
    this.#options = { ...options, kind };
    this.#proxies = new ConnectedProxies({
      ...options,
      onChanged: (gateways) =>
        this.#leading === undefined ? this.#lease.changed() : this.#leading.onChanged(gateways),
    });
    const what = 'the report about gateway proxies';
    const tooLarge = createFailureLog(options.log, `${what} is too large`, `${what} is complete again`);
    this.#lease = new ReportLease({
      ...options,
      kind,
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
  connected(node: ProxyNode, proxy: ObservedProxy): ReturnType<ConnectedProxies['connected']> {
    return this.#proxies.connected(node, proxy);
  }

  /** The listeners of these Gateways (`namespace/name`) have changed, in a snapshot that is published at once. */
  changed(gateways: readonly string[]): void {
    this.#proxies.changed(gateways);
  }

  of(gateway: string): readonly GatewayReport[] {
    const own = this.#proxies.of(gateway);
    const reported = this.#leading?.others.of(gateway) ?? [];
    const others = reported.flatMap((text) => (text === undefined ? [] : [decodeGateway(text)]));
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
