/** Hostnames of listeners and routes. `*` is any host; `*.example.com` is every host below example.com. */

export const ANY_HOST = '*';

/** A hostname as written; absent or empty: any. */
export function hostnameOf(written: string | undefined): string {
  return written === undefined || written === '' ? ANY_HOST : written.toLowerCase();
}

/** Whether every host that `narrow` names is one that `wide` names. */
export function covers(wide: string, narrow: string): boolean {
  if (wide === ANY_HOST || wide === narrow) return true;
  return wide.startsWith('*.') && narrow.length >= wide.length && narrow.endsWith(wide.slice(1));
}

/** The hosts that both name, as one of the two; undefined where they have none in common. */
export function intersection(a: string, b: string): string | undefined {
  if (covers(a, b)) return b;
  return covers(b, a) ? a : undefined;
}

/** The hosts that a listener and a route have in common, each once: those of the listener for a route without any. */
export function commonHostnames(listener: string, route: readonly string[] | undefined): readonly string[] {
  if (route === undefined || route.length === 0) return [listener];
  return [...new Set(route.flatMap((written) => intersection(listener, hostnameOf(written)) ?? []))];
}
