/**
 * The proxies of Gateways that are connected to this replica, and which listeners each has acknowledged. A proxy counts
 * for the Gateway whose ServiceAccount it has proven to be.
 *
 * A Gateway is looked at while one of its proxies has not acknowledged everything; others cost nothing.
 */
import type { Clock, Timer } from '../../core/clock.ts';
import type { ProxyNode } from '../../core/proxy.ts';
import type { ServedListener } from '../../translators/index.ts';
import type { ConnectedProxy } from '../../xds/index.ts';
import { GATEWAY_NAME_LABEL, managedName } from '../infrastructure.ts';
import { statusKey } from '../kind-objects.ts';
import { type GatewayReport, MAX_ERROR, MAX_PODS, type Report } from './report.ts';

export interface ConnectedProxiesOptions {
  readonly clock: Clock;
  /** The listeners of a Gateway by its key; undefined where it is not served. */
  readonly listenersOf: (key: string) => readonly ServedListener[] | undefined;
  /** The version of the snapshot that is served. */
  readonly version: () => number;
  /** The reports of these Gateways (`namespace/name`) have changed. */
  onChanged(gateways: readonly string[]): void;
}

interface Proxy {
  readonly pod: string;
  readonly proxy: ConnectedProxy;
  readonly acknowledged: Set<string>;
  readonly rejected: Map<string, string>;
}

interface WantedListener extends ServedListener {
  /** The snapshot version from which on proxies are sent it. */
  readonly since: number;
}

interface Gateway {
  /** In the order in which they connected. */
  readonly proxies: Set<Proxy>;
  listeners: readonly WantedListener[];
}

/** Between two looks at what proxies have, ms. */
const LOOK_MS = 250;
/** The share of time that these may take. */
const LOOK_SHARE = 1 / 20;

export class ConnectedProxies {
  readonly #options: ConnectedProxiesOptions;
  /** By `namespace/name`; those with connected proxies. */
  readonly #gateways = new Map<string, Gateway>();
  /** Gateways with proxies that have not acknowledged everything. */
  readonly #unsettled = new Set<string>();
  #timer: Timer | undefined;
  #closed = false;

  constructor(options: ConnectedProxiesOptions) {
    this.#options = options;
  }

  /** A stream was opened by an authorized node; undefined where it is no proxy of a Gateway. */
  connected(node: ProxyNode, proxy: ConnectedProxy): { rejected(): void; disconnected(): void } | undefined {
    const name = gatewayOf(node);
    if (name === undefined || this.#closed) return undefined;
    const key = `${node.namespace}/${name}`;
    const gateway = this.#gateways.get(key) ?? { proxies: new Set(), listeners: [] };
    this.#gateways.set(key, gateway);
    if (gateway.proxies.size === 0) this.#refresh(key);
    const entry: Proxy = { pod: podOf(node), proxy, acknowledged: new Set(), rejected: new Map() };
    gateway.proxies.add(entry);
    this.#look(key);
    return {
      rejected: () => this.#look(key),
      disconnected: () => {
        gateway.proxies.delete(entry);
        if (gateway.proxies.size === 0) this.#gateways.delete(key);
        // Another one may count now.
        else this.#look(key);
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
    return found === undefined ? undefined : reportOf(found);
  }

  report(): Report {
    const reports = [...this.#gateways].map(([key, gateway]) => [key, reportOf(gateway)] as const);
    return new Map(reports.filter(([, { size }]) => size > 0));
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
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
    // A listener that comes back is acknowledged once more.
    const digests = new Set(served.map(({ digest }) => digest));
    for (const { acknowledged, rejected } of gateway.proxies)
      for (const known of [acknowledged, rejected])
        for (const digest of known.keys()) if (!digests.has(digest)) known.delete(digest);
    this.#look(key);
    this.#options.onChanged([key]);
  }

  #look(key: string): void {
    this.#unsettled.add(key);
    this.#lookAfter(LOOK_MS);
  }

  #lookAfter(ms: number): void {
    if (this.#timer !== undefined || this.#closed) return;
    this.#timer = this.#options.clock.setTimer(ms, () => {
      this.#timer = undefined;
      this.#lookAtAll();
    });
  }

  #lookAtAll(): void {
    const { clock, onChanged } = this.#options;
    const started = clock.now();
    const changed: string[] = [];
    for (const key of this.#unsettled) {
      const gateway = this.#gateways.get(key);
      const results = gateway === undefined ? [] : counted(gateway).map((each) => update(each, gateway.listeners));
      if (results.every(({ settled }) => settled)) this.#unsettled.delete(key);
      if (results.some((result) => result.changed)) changed.push(key);
    }
    if (this.#unsettled.size > 0) this.#lookAfter(Math.max(LOOK_MS, (clock.now() - started) / LOOK_SHARE));
    if (changed.length > 0) onChanged(changed);
  }
}

/** The Gateway that a node is a proxy of: its credential is that of the ServiceAccount made for the Gateway. */
function gatewayOf({ labels, namespace, identity }: ProxyNode): string | undefined {
  const name = Object.hasOwn(labels, GATEWAY_NAME_LABEL) ? labels[GATEWAY_NAME_LABEL] : undefined;
  if (name === undefined || identity?.namespace !== namespace) return undefined;
  return identity.serviceAccount === managedName(name) ? name : undefined;
}

function podOf({ workload, namespace }: ProxyNode): string {
  return workload.slice(0, -namespace.length - 1);
}

/** A Gateway may have any number of proxies. */
function counted({ proxies }: Gateway): readonly Proxy[] {
  return proxies.size <= MAX_PODS ? [...proxies] : proxies.values().take(MAX_PODS).toArray();
}

function reportOf(gateway: Gateway): GatewayReport {
  const answered = counted(gateway).filter(({ acknowledged, rejected }) => acknowledged.size + rejected.size > 0);
  return new Map(answered.map((each) => [each.pod, each]));
}

/** Notes what a proxy has acknowledged and rejected by now. What it is being sent again stays as it was. */
function update(
  { proxy, acknowledged, rejected }: Proxy,
  listeners: readonly WantedListener[],
): { readonly changed: boolean; readonly settled: boolean } {
  let changed = false;
  const version = proxy.completeVersion();
  const states = proxy.listeners();
  for (const { digest, port, since } of listeners) {
    const state = states === undefined || version < since ? 'outstanding' : stateOf(states, port);
    if (state === 'outstanding') continue;
    if (state === 'acknowledged') {
      if (acknowledged.has(digest)) continue;
      acknowledged.add(digest);
      rejected.delete(digest);
    } else {
      const error = state.rejected.replace(/\s+/g, ' ').slice(0, MAX_ERROR).toWellFormed();
      if (rejected.get(digest) === error) continue;
      rejected.set(digest, error);
      acknowledged.delete(digest);
    }
    changed = true;
  }
  return { changed, settled: listeners.every(({ digest }) => acknowledged.has(digest)) };
}

/** Of a port: Envoy has a listener for each address. Without one there is nothing to acknowledge. */
function stateOf(
  states: NonNullable<ReturnType<ConnectedProxy['listeners']>>,
  port: number,
): 'acknowledged' | 'outstanding' | { readonly rejected: string } {
  const found = [...states].flatMap(([name, state]) => (name.endsWith(`_${port}`) ? state : []));
  const rejected = found.find((state) => typeof state === 'object');
  return rejected ?? (found.includes('outstanding') ? 'outstanding' : 'acknowledged');
}
