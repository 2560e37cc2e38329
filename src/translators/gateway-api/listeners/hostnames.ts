/** Hostnames of listeners and routes. `*` is any host; `*.example.com` is every host below example.com. */

export const ANY_HOST = '*';

/** A hostname as written; absent or empty: any. */
export function hostnameOf(written: string | undefined): string {
  return written === undefined || written === '' ? ANY_HOST : written.toLowerCase();
}

/** Whether `wide` matches every host that `narrow` matches. */
export function covers(wide: string, narrow: string): boolean {
  if (wide === ANY_HOST || wide === narrow) return true;
  return wide.startsWith('*.') && narrow.length >= wide.length && narrow.endsWith(wide.slice(1));
}

/** The hostname that matches the common hosts of both, which is one of the two; undefined if there are none. */
export function intersection(a: string, b: string): string | undefined {
  if (covers(a, b)) return b;
  return covers(b, a) ? a : undefined;
}

/**
 * The common hostnames of a listener and a route, without duplicates; that of the listener for a route without
 * hostnames.
 */
export function commonHostnames(listener: string, route: readonly string[] | undefined): readonly string[] {
  if (route === undefined || route.length === 0) return [listener];
  return [...new Set(route.flatMap((written) => intersection(listener, hostnameOf(written)) ?? []))];
}

/** Hostnames with values. A hostname that overlaps with another is found without comparing all. */
export class HostnameSet<T> {
  readonly #names = new Map<string, T>();
  /** Wildcard → a value with a narrower hostname. */
  readonly #below = new Map<string, T>();

  /** Adds a value, unless the hostname already has one. */
  add(hostname: string, value: T): void {
    if (!this.#names.has(hostname)) this.#names.set(hostname, value);
    for (const wide of wildcardsOf(hostname)) if (!this.#below.has(wide)) this.#below.set(wide, value);
  }

  /** The value of a hostname that overlaps with any of these. */
  firstCommon(hostnames: readonly string[]): T | undefined {
    for (const hostname of hostnames) {
      const found = this.#names.get(hostname) ?? this.#below.get(hostname);
      if (found !== undefined) return found;
      for (const wide of wildcardsOf(hostname)) {
        const wider = this.#names.get(wide);
        if (wider !== undefined) return wider;
      }
    }
    return undefined;
  }
}

/** The wildcards that cover a hostname, without itself. */
function wildcardsOf(hostname: string): readonly string[] {
  if (hostname === ANY_HOST) return [];
  const labels = hostname.split('.').slice(1);
  // `*.example.com` does not cover itself.
  const wide = labels.map((_, index) => `*.${labels.slice(index).join('.')}`);
  return [...wide.filter((name) => name !== hostname), ANY_HOST];
}
