/** All simulated proxies of the process, and the commands for them. */
import { createSecureContext, type SecureContext } from 'node:tls';
import { monotonicMs } from '../world/clock.ts';
import { type Body, BodyIndex } from './bodies.ts';
import type { Answers, Arrivals, Command, OpenCommand, ProxyType, Totals, Verdict } from './messages.ts';
import { BenchProxy } from './proxy.ts';
import { RawSink } from './raw-sink.ts';
import { PROXY_TYPES, type ResponseHead } from './response-reader.ts';
import { securityOf } from './security.ts';
import { usedBy } from './uses.ts';
import { Watch } from './watch.ts';

/** The parameters that a default UpstreamTlsContext of Envoy 1.40 negotiates with this server. */
const AS_ENVOY = {
  maxVersion: 'TLSv1.2',
  ciphers: 'ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256',
  ecdhCurve: 'X25519:P-256',
} as const;

/** Delay before reconnecting, ms: Envoy starts with a random part of half a second. */
const RETRY_MS = 250;
/** Number of differences that are reported one by one. */
const MAX_DIFFERENCES = 5;

export class Fleet {
  #proxies: BenchProxy[] = [];
  #open: OpenCommand | undefined;
  #bodies: BodyIndex | undefined;
  /** By namespace; empty for plain text. */
  #contexts: ReadonlyMap<string, SecureContext> = new Map();
  #raw: RawSink | undefined;
  #retry = false;
  readonly #watches = new Map<number, Watch>();
  /** Monotonic ms at which each proxy had everything for the first time. */
  readonly #syncedAt = new Map<BenchProxy, number>();
  readonly #syncWaiters = new Set<() => void>();
  readonly #byType: Record<ProxyType, number> = { cds: 0, eds: 0, lds: 0, rds: 0, vhds: 0 };
  #messages = 0;
  #bytes = 0;
  #resources = 0;
  #broken = 0;

  async run<C extends Command>(command: C): Promise<Answers[C['op']]>;
  async run(command: Command): Promise<Answers[Command['op']]> {
    switch (command.op) {
      case 'open':
        return this.#start(command);
      case 'synced':
        return this.#synced(command.timeoutMs);
      case 'watch': {
        const { watch, proxies, predicates } = command;
        const chosen =
          proxies === undefined ? this.#proxies : this.#proxies.filter((_, index) => proxies.includes(index));
        this.#watches.set(watch, new Watch(chosen, predicates));
        return undefined;
      }
      case 'arrived': {
        const watch = this.#watches.get(command.watch);
        if (watch === undefined) throw new Error(`no watch ${command.watch}`);
        const arrivals = await watch.arrivals(command.timeoutMs);
        this.#watches.delete(command.watch);
        return arrivals;
      }
      case 'totals':
        return this.#totals();
      case 'drop':
        this.#retry = false;
        for (const proxy of this.#proxies) proxy.disconnect();
        return undefined;
      case 'connect':
        this.#retry = command.retry;
        for (const proxy of this.#proxies) if (!proxy.connected) proxy.connect();
        return undefined;
      case 'crawl':
        for (const proxy of this.#proxies) if (proxy.options.small) proxy.crawl(command.bytesPerSecond);
        return undefined;
      case 'verify':
        return this.#verify(command.timeoutMs);
      case 'rawOpen':
        this.#raw?.close();
        this.#raw = new RawSink(command.bytes);
        return this.#raw.open(command.port, command.count);
      case 'rawArrived':
        if (this.#raw === undefined) throw new Error('no raw connections are open');
        return this.#raw.arrived(command.timeoutMs);
    }
  }

  #start(command: OpenCommand): undefined {
    for (const proxy of this.#proxies) proxy.disconnect();
    this.#syncedAt.clear();
    this.#retry = false;
    this.#open = command;
    this.#bodies = new BodyIndex(command.mode);
    const { ca, identities = {} } = command.certificates ?? {};
    this.#contexts = new Map(
      Object.entries(identities).map(([namespace, { certificate: cert, key }]) => [
        namespace,
        createSecureContext({ ...AS_ENVOY, cert, key, ...(ca === undefined ? {} : { ca }) }),
      ]),
    );
    const { count, slow } = command;
    this.#proxies = Array.from({ length: count }, (_, index) => this.#make(index, index >= count - slow));
    for (const proxy of this.#proxies) proxy.connect();
    return undefined;
  }

  #make(index: number, small: boolean): BenchProxy {
    if (this.#open === undefined || this.#bodies === undefined) throw new Error('nothing is open');
    const { namespaces, port, content, addresses, uses, gzip } = this.#open;
    const namespace = namespaces[index % namespaces.length] ?? '';
    return new BenchProxy({
      index,
      namespace,
      port,
      address: addresses?.[index % namespaces.length],
      content,
      bodies: this.#bodies,
      small,
      gzip,
      context: this.#contexts.get(namespace),
      uses: uses && usedBy(index, uses.names.length, uses.each).map((at) => uses.names[at] ?? ''),
      received: (proxy, head, body, bytes) => this.#received(proxy, head, body, bytes),
      broken: (proxy) => this.#reconnect(proxy),
    });
  }

  #reconnect(proxy: BenchProxy): void {
    this.#broken++;
    if (!this.#retry) return;
    const wait = RETRY_MS * (0.5 + Math.random());
    setTimeout(() => {
      if (this.#retry && !proxy.connected && this.#proxies.includes(proxy)) proxy.connect();
    }, wait);
  }

  #received(proxy: BenchProxy, head: ResponseHead, body: Body, bytes: number): void {
    const now = monotonicMs();
    this.#messages++;
    this.#bytes += bytes;
    this.#resources += body.resources.length + head.removed.length;
    this.#byType[head.type]++;
    for (const watch of this.#watches.values()) watch.received(proxy, head, body, now);
    if (this.#syncedAt.has(proxy) || !proxy.complete) return;
    this.#syncedAt.set(proxy, now);
    for (const wake of this.#syncWaiters) wake();
  }

  async #synced(timeoutMs: number): Promise<Arrivals> {
    const deadline = monotonicMs() + timeoutMs;
    const missing = (): number => this.#proxies.filter((proxy) => !this.#syncedAt.has(proxy)).length;
    while (this.#syncedAt.size < this.#proxies.length && monotonicMs() < deadline) {
      await new Promise<void>((resolve) => {
        const wake = (): void => {
          clearTimeout(timer);
          this.#syncWaiters.delete(wake);
          resolve();
        };
        const timer = setTimeout(wake, deadline - monotonicMs());
        this.#syncWaiters.add(wake);
      });
    }
    return { at: this.#proxies.map((proxy) => this.#syncedAt.get(proxy) ?? 0), missing: missing() };
  }

  #totals(): Totals {
    const { user, system } = process.cpuUsage();
    return {
      messages: this.#messages,
      bytes: this.#bytes,
      resources: this.#resources,
      messagesByType: { ...this.#byType },
      open: this.#proxies.filter((proxy) => proxy.connected).length,
      broken: this.#broken,
      cpuSeconds: (user + system) / 1e6,
    };
  }

  async #verify(timeoutMs: number): Promise<Verdict> {
    if (this.#open === undefined || this.#bodies === undefined) throw new Error('nothing is open');
    const { namespaces, uses } = this.#open;
    const compared = uses === undefined ? this.#proxies : this.#proxies.slice(0, namespaces.length);
    const fresh = namespaces.map((_, index) => this.#make(uses === undefined ? this.#freshIndex(index) : index, false));
    for (const proxy of fresh) proxy.connect();
    const deadline = monotonicMs() + timeoutMs;
    while (fresh.some((proxy) => !proxy.complete) && monotonicMs() < deadline)
      await new Promise((resolve) => setTimeout(resolve, 10));
    const differences: string[] = [];
    for (const proxy of compared) {
      const model = fresh[proxy.options.index % namespaces.length];
      const type = PROXY_TYPES.find((each) => proxy.set(each).digest !== model?.set(each).digest);
      if (type !== undefined) differences.push(`proxy ${proxy.options.index} differs in ${type}`);
    }
    for (const proxy of fresh) proxy.disconnect();
    const security = securityOf(this.#bodies);
    return { compared: compared.length, differences: differences.slice(0, MAX_DIFFERENCES), security };
  }

  /** An index of the same namespace beyond those in use. */
  #freshIndex(namespace: number): number {
    const count = this.#open?.namespaces.length ?? 1;
    return Math.ceil(this.#proxies.length / count) * count + namespace;
  }
}
