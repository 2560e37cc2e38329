/**
 * Which listeners the proxies of Gateways have acknowledged, whichever replica they are connected to:
 *
 *   streams of proxies ─▶ connected proxies ─┬─ where this replica leads ─▶ statuses
 *                                            └─ elsewhere ─▶ Lease of the replica ─▶ replica that leads ─▶ statuses
 */
import { createFailureLog } from '../../core/log.ts';
import type { ProxyNode } from '../../core/proxy.ts';
import { ReportExchange, type ReportKind, type ReportLeaseOptions } from '../../object-status/index.ts';
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
  readonly #proxies: ConnectedProxies;
  readonly #exchange: ReportExchange;

  constructor(options: AcknowledgedListenersOptions) {
    const { log, revision } = options;
    this.#proxies = new ConnectedProxies({ ...options, onChanged: (gateways) => this.#exchange.changed(gateways) });
    const what = 'the report about gateway proxies';
    const tooLarge = createFailureLog(log, `${what} is too large`, `${what} is complete again`);
    this.#exchange = new ReportExchange({
      ...options,
      kind: reportsOf(revision),
      report: () => {
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
    const reported = this.#exchange.of(gateway);
    const others = reported.flatMap((text) => (text === undefined ? [] : [decodeGateway(text)]));
    return own === undefined ? others : [own, ...others];
  }

  follow(onChanged: (gateways: readonly string[]) => void): () => Promise<void> {
    return this.#exchange.follow(onChanged);
  }

  async close(): Promise<void> {
    this.#proxies.close();
    await this.#exchange.close();
  }
}
