/** The record of a connected proxy of a Gateway: which of its listeners the proxy has acknowledged and rejected. */
import type { NextVisit } from '../../object-status/index.ts';
import type { ServedListener } from '../../translators/index.ts';
import type { ConnectedProxy } from '../../xds/index.ts';
import { MAX_ERROR, type ProxyListeners } from './report.ts';

export interface WantedListener extends ServedListener {
  /** The snapshot version from which on the listener is sent to proxies. */
  readonly since: number;
}

export interface Looked {
  readonly changed: boolean;
  readonly next: NextVisit;
}

/** What is read of a proxy. */
export type ObservedProxy = Pick<ConnectedProxy, 'completeVersion' | 'listeners'>;

type States = NonNullable<ReturnType<ConnectedProxy['listeners']>>;
type State = States extends ReadonlyMap<string, infer Each> ? Each : never;

export class NotedProxy implements ProxyListeners {
  /** `namespace/name`. */
  readonly gateway: string;
  readonly namespace: string;
  readonly pod: string;
  readonly acknowledged = new Set<string>();
  readonly rejected = new Map<string, string>();
  readonly #proxy: ObservedProxy;
  /** The version at which it had responded to everything, with rejections; undefined if it must be examined. */
  #rejectedAt: number | undefined;

  constructor(gateway: string, namespace: string, pod: string, proxy: ObservedProxy) {
    this.gateway = gateway;
    this.namespace = namespace;
    this.pod = pod;
    this.#proxy = proxy;
  }

  /** Whether the proxy has acknowledged or rejected a listener. */
  get hasAnswered(): boolean {
    return this.acknowledged.size + this.rejected.size > 0;
  }

  /** The state of the proxy may differ from the record although the version is the same. */
  outdated(): void {
    this.#rejectedAt = undefined;
  }

  forget(): void {
    this.keep(new Set());
  }

  /** Forgets all listeners but these, by their digests. */
  keep(digests: ReadonlySet<string>): void {
    for (const known of [this.acknowledged, this.rejected])
      for (const digest of known.keys()) if (!digests.has(digest)) known.delete(digest);
    this.outdated();
  }

  /**
   * Notes what the proxy has acknowledged and rejected by now. The record of listeners that are being sent again does
   * not change.
   * @param served the version of the snapshot
   */
  look(listeners: readonly WantedListener[], served: number): Looked {
    const version = this.#proxy.completeVersion();
    if (version === this.#rejectedAt) return { changed: false, next: afterRejection(version, served) };
    this.#rejectedAt = undefined;
    const states = this.#proxy.listeners();
    if (states === undefined) return { changed: false, next: this.#next(listeners) };
    const { ofPorts, outstanding } = byPort(states);
    const shorten = shortener();
    let changed = false;
    for (const { digest, port, since } of listeners) {
      // Envoy needs no listener for the port: there is nothing to acknowledge.
      const state = version < since ? 'outstanding' : (ofPorts.get(`${port}`) ?? 'acknowledged');
      if (state === 'acknowledged') changed = this.#acknowledge(digest) || changed;
      else if (state !== 'outstanding') changed = this.#reject(digest, shorten(state.rejected)) || changed;
    }
    const answered = listeners.every(({ digest }) => this.acknowledged.has(digest) || this.rejected.has(digest));
    if (answered && !outstanding && this.rejected.size > 0) {
      this.#rejectedAt = version;
      return { changed, next: afterRejection(version, served) };
    }
    return { changed, next: this.#next(listeners) };
  }

  #next(listeners: readonly WantedListener[]): NextVisit {
    return listeners.every(({ digest }) => this.acknowledged.has(digest)) ? 'none' : 'next-round';
  }

  #acknowledge(digest: string): boolean {
    if (this.acknowledged.has(digest)) return false;
    this.acknowledged.add(digest);
    this.rejected.delete(digest);
    return true;
  }

  #reject(digest: string, error: string): boolean {
    if (this.rejected.get(digest) === error) return false;
    this.rejected.set(digest, error);
    this.acknowledged.delete(digest);
    return true;
  }
}

/** A proxy that may have something newer soon is looked at until it has. */
function afterRejection(version: number, served: number): NextVisit {
  return version < served ? 'next-round' : 'new-version';
}

/** The states of the listeners of each port, of which Envoy has one for each address: a rejection counts first. */
function byPort(states: States): { readonly ofPorts: ReadonlyMap<string, State>; readonly outstanding: boolean } {
  const ofPorts = new Map<string, State>();
  let outstanding = false;
  for (const [name, state] of states) {
    if (state === 'outstanding') outstanding = true;
    const port = name.slice(name.lastIndexOf('_') + 1);
    const other = ofPorts.get(port);
    if (other === undefined || other === 'acknowledged' || typeof state === 'object') ofPorts.set(port, state);
  }
  return { ofPorts, outstanding };
}

/** Shortens errors. Consecutive ones are mostly the same. */
function shortener(): (error: string) => string {
  let last: { readonly error: string; readonly short: string } | undefined;
  return (error) => {
    if (last?.error !== error) last = { error, short: shortened(error) };
    return last.short;
  };
}

function shortened(error: string): string {
  return error.replace(/\s+/g, ' ').slice(0, MAX_ERROR).toWellFormed();
}
