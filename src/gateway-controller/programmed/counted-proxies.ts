/**
 * The connected proxies of a Gateway, of which there may be any number. Only a few are counted at a time, and they take
 * turns with the others, so that proxies that acknowledge nothing, or whose Pods are never ready, do not keep others
 * from being counted.
 */
import type { NotedProxy } from './noted-proxy.ts';
import { MAX_PODS } from './report.ts';

/** After this time other proxies are counted, ms: enough to receive listeners and to acknowledge them. */
export const TURN_MS = 10_000;

export interface Turn {
  readonly ended: readonly NotedProxy[];
  readonly begun: readonly NotedProxy[];
}

export class CountedProxies {
  /** In the order of their turns; the first proxies are counted. */
  readonly #proxies = new Set<NotedProxy>();

  get size(): number {
    return this.#proxies.size;
  }

  /** Whether some proxies are not counted. */
  get areCrowded(): boolean {
    return this.#proxies.size > MAX_PODS;
  }

  /** Returns whether the proxy is counted. */
  add(proxy: NotedProxy): boolean {
    this.#proxies.add(proxy);
    return !this.areCrowded;
  }

  /** Returns the proxy that is counted in place of this one, if any. */
  delete(proxy: NotedProxy): NotedProxy | undefined {
    const counted = this.isCounted(proxy);
    this.#proxies.delete(proxy);
    return counted ? this.counted()[MAX_PODS - 1] : undefined;
  }

  isCounted(proxy: NotedProxy): boolean {
    return this.counted().includes(proxy);
  }

  counted(): readonly NotedProxy[] {
    return this.areCrowded ? this.#proxies.values().take(MAX_PODS).toArray() : [...this.#proxies];
  }

  nextTurn(): Turn {
    const counted = this.counted();
    const ended = endingTurns(counted).slice(0, this.#proxies.size - counted.length);
    for (const proxy of ended) {
      this.#proxies.delete(proxy);
      this.#proxies.add(proxy);
      proxy.forget();
    }
    return { ended, begun: this.counted().slice(counted.length - ended.length) };
  }
}

/**
 * The proxies whose turns end: all that have not responded to anything or, if all have responded, only one, so that the
 * state of the Gateway stays known: the first that has rejected something, otherwise the first.
 */
function endingTurns(counted: readonly NotedProxy[]): readonly NotedProxy[] {
  const silent = counted.filter(({ hasAnswered }) => !hasAnswered);
  if (silent.length > 0) return silent;
  const one = counted.find(({ rejected }) => rejected.size > 0) ?? counted[0];
  return one === undefined ? [] : [one];
}
