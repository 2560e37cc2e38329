/** Watches a change: records for each proxy when it has everything that shows the arrival of the change. */
import type { Body } from './bodies.ts';
import type { Arrivals, Predicate } from './messages.ts';
import type { BenchProxy } from './proxy.ts';
import type { ResponseHead } from './response-reader.ts';

interface Waiting {
  /** Predicates that are not yet true, with the proxy's state before. */
  open: { readonly predicate: Predicate; readonly before: string | undefined }[];
  at: number;
}

/**
 * The proxy's name of a resource: endpoints are given by their cluster, whose `service_name` is their name.
 */
function nameAt(proxy: BenchProxy, { type, name }: Predicate): string {
  return type === 'eds' ? (proxy.set('cds').map.get(name)?.refs[0] ?? name) : name;
}

function holds(
  predicate: Predicate,
  before: string | undefined,
  proxy: BenchProxy,
  head: ResponseHead,
  body: Body,
): boolean {
  const { type, state } = predicate;
  const name = nameAt(proxy, predicate);
  const now = proxy.set(type).map.get(name);
  switch (state) {
    case 'present':
      return now !== undefined;
    case 'gone':
      return now === undefined;
    case 'changed':
      return now !== undefined && now.identity !== before;
    case 'received':
      return name === '' || head.removed.includes(name) || body.resources.some((resource) => resource.name === name);
  }
}

export class Watch {
  readonly #waiting = new Map<BenchProxy, Waiting>();
  #missing = 0;
  #settled: (() => void) | undefined;

  constructor(proxies: Iterable<BenchProxy>, predicates: readonly Predicate[]) {
    for (const proxy of proxies) {
      const open = predicates.map((predicate) => ({
        predicate,
        before: proxy.set(predicate.type).map.get(nameAt(proxy, predicate))?.identity,
      }));
      this.#waiting.set(proxy, { open, at: 0 });
    }
    this.#missing = this.#waiting.size;
  }

  /** `now` in monotonic ms. */
  received(proxy: BenchProxy, head: ResponseHead, body: Body, now: number): void {
    const waiting = this.#waiting.get(proxy);
    if (waiting === undefined || waiting.open.length === 0) return;
    waiting.open = waiting.open.filter(
      ({ predicate, before }) => predicate.type !== head.type || !holds(predicate, before, proxy, head, body),
    );
    if (waiting.open.length > 0) return;
    waiting.at = now;
    this.#missing--;
    if (this.#missing === 0) this.#settled?.();
  }

  /** Resolves when the change has arrived everywhere, or at the timeout. */
  async arrivals(timeoutMs: number): Promise<Arrivals> {
    if (this.#missing > 0)
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, timeoutMs);
        this.#settled = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    return { at: [...this.#waiting.values()].map(({ at }) => at), missing: this.#missing };
  }
}
