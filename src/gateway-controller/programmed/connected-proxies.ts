/**
 * The proxies of Gateways that are connected to this replica, and which listeners each has acknowledged. A proxy counts
 * for the Gateway whose ServiceAccount it has proven to be.
 *
 * A proxy is examined while it has not responded to everything that it should have. A proxy that has rejected something
 * is examined again once it may have been sent something else; a proxy that has acknowledged everything costs nothing.
 */
import type { Clock } from '../../core/clock.ts';
import type { ProxyNode } from '../../core/proxy.ts';
import { type NextVisit, Rounds, statusKey } from '../../object-status/index.ts';
import type { ServedListener } from '../../translators/index.ts';
import { GATEWAY_NAME_LABEL, managedName } from '../infrastructure.ts';
import { CountedProxies, TURN_MS } from './counted-proxies.ts';
import { NotedProxy, type ObservedProxy, type WantedListener } from './noted-proxy.ts';
import type { GatewayReport, Report } from './report.ts';

export interface ConnectedProxiesOptions {
  readonly clock: Clock;
  /** The listeners of a Gateway by its key; undefined where it is not served. */
  readonly listenersOf: (key: string) => readonly ServedListener[] | undefined;
  readonly version: () => number;
  /** The reports of these Gateways (`namespace/name`) have changed. */
  onChanged(gateways: readonly string[]): void;
}

interface Gateway {
  /** `namespace/name`. */
  readonly key: string;
  readonly namespace: string;
  readonly proxies: CountedProxies;
  listeners: readonly WantedListener[];
}

/** Interval at which the acknowledgements of proxies are checked, ms. */
const LOOK_MS = 250;

export class ConnectedProxies {
  readonly #options: ConnectedProxiesOptions;
  /** By `namespace/name`; only Gateways with connected proxies. */
  readonly #gateways = new Map<string, Gateway>();
  readonly #looks: Rounds<NotedProxy>;
  /** Visits Gateways that have more proxies than are counted. */
  readonly #turns: Rounds<Gateway>;
  /** Gateways whose reports have changed in this slice. */
  readonly #changed = new Set<string>();
  #closed = false;

  constructor(options: ConnectedProxiesOptions) {
    this.#options = options;
    const { clock, version } = options;
    const onSlice = (): void => this.#tellChanged();
    const visit = (proxy: NotedProxy): NextVisit => this.#look(proxy);
    this.#looks = new Rounds({ clock, version, intervalMs: LOOK_MS, visit, onSlice });
    const nextTurn = (gateway: Gateway): NextVisit => this.#nextTurn(gateway);
    this.#turns = new Rounds({ clock, version, intervalMs: TURN_MS, visit: nextTurn, onSlice });
  }

  /** A stream was opened by an authorized node; undefined where it is not a proxy of a Gateway. */
  connected(node: ProxyNode, proxy: ObservedProxy): { rejected(): void; disconnected(): void } | undefined {
    const name = findGateway(node);
    if (name === undefined || this.#closed) return undefined;
    const { namespace } = node;
    const key = `${namespace}/${name}`;
    const gateway = this.#gateways.get(key) ?? { key, namespace, proxies: new CountedProxies(), listeners: [] };
    this.#gateways.set(key, gateway);
    if (gateway.proxies.size === 0) this.#refresh(key);
    const entry = new NotedProxy(key, namespace, podName(node), proxy);
    if (gateway.proxies.add(entry)) this.#looks.add(entry);
    if (gateway.proxies.areCrowded) this.#turns.add(gateway);
    return {
      rejected: () => {
        entry.outdated();
        if (gateway.proxies.isCounted(entry)) this.#looks.add(entry);
      },
      disconnected: () => {
        const next = gateway.proxies.delete(entry);
        this.#looks.remove(entry);
        if (gateway.proxies.size === 0) this.#gateways.delete(key);
        else if (next !== undefined) this.#looks.add(next);
        if (!gateway.proxies.areCrowded) this.#turns.remove(gateway);
        if (!this.#closed) this.#options.onChanged([key]);
      },
    };
  }

  /** The listeners of these Gateways (`namespace/name`) have changed, in a snapshot that is published at once. */
  changed(gateways: readonly string[]): void {
    for (const key of gateways) if (this.#gateways.has(key)) queueMicrotask(() => this.#refresh(key));
  }

  of(gateway: string): GatewayReport | undefined {
    const found = this.#gateways.get(gateway);
    return found === undefined ? undefined : toReport(found);
  }

  report(): Report {
    const reports = [...this.#gateways].map(([key, gateway]) => [key, toReport(gateway)] as const);
    return new Map(reports.filter(([, { size }]) => size > 0));
  }

  close(): void {
    this.#closed = true;
    this.#looks.close();
    this.#turns.close();
  }

  /** A listener that has not changed stays acknowledged. */
  #refresh(key: string): void {
    const gateway = this.#gateways.get(key);
    if (gateway === undefined) return;
    const [namespace = '', name = ''] = key.split('/');
    const version = this.#options.version();
    const before = new Map(gateway.listeners.map(({ digest, since }) => [digest, since]));
    const served = this.#options.listenersOf(statusKey('KubernetesGateway', namespace, name)) ?? [];
    gateway.listeners = served.map((listener) => ({ ...listener, since: before.get(listener.digest) ?? version }));
    // A listener that is restored must be acknowledged again.
    const digests = new Set(served.map(({ digest }) => digest));
    for (const proxy of gateway.proxies.counted()) {
      proxy.keep(digests);
      this.#looks.add(proxy);
    }
    this.#options.onChanged([key]);
  }

  #look(proxy: NotedProxy): NextVisit {
    const { changed, next } = proxy.look(this.#gateways.get(proxy.gateway)?.listeners ?? [], this.#options.version());
    if (changed) this.#changed.add(proxy.gateway);
    return next;
  }

  #nextTurn({ key, proxies }: Gateway): NextVisit {
    const { ended, begun } = proxies.nextTurn();
    for (const proxy of ended) this.#looks.remove(proxy);
    for (const proxy of begun) this.#looks.add(proxy);
    this.#changed.add(key);
    return 'next-round';
  }

  #tellChanged(): void {
    const changed = [...this.#changed];
    this.#changed.clear();
    if (changed.length > 0) this.#options.onChanged(changed);
  }
}

/**
 * The Gateway that a node is a proxy of: its credential is that of the ServiceAccount made for the Gateway. Only
 * routers are sent the Gateway's listeners: other proxies have no listener to acknowledge, which would count as
 * acknowledged.
 */
function findGateway({ type, proxyless, labels, namespace, identity }: ProxyNode): string | undefined {
  if (type !== 'router' || proxyless === true) return undefined;
  const name = Object.hasOwn(labels, GATEWAY_NAME_LABEL) ? labels[GATEWAY_NAME_LABEL] : undefined;
  if (name === undefined || identity?.namespace !== namespace) return undefined;
  return identity.serviceAccount === managedName(name) ? name : undefined;
}

function podName({ workload, namespace }: ProxyNode): string {
  return workload.slice(0, -namespace.length - 1);
}

function toReport({ proxies }: Gateway): GatewayReport {
  const answered = proxies.counted().filter(({ hasAnswered }) => hasAnswered);
  return new Map(answered.map((proxy) => [proxy.pod, proxy]));
}
