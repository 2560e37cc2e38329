/** Which services the simulated proxies on demand call. */

/** The services that proxies may call, by the names under which they ask for them, and how many each of them calls. */
export interface Uses {
  readonly names: readonly string[];
  readonly each: number;
}

/** Apart so that neighbours call different services: no two proxies call the same ones. */
const STEP = 97;
const SHIFT = 7;

/** The indexes of the services that a proxy calls: each service is called by about as many proxies as any other. */
export function usedBy(proxy: number, services: number, each: number): readonly number[] {
  return Array.from({ length: each }, (_, at) => (proxy * SHIFT + at * STEP) % services);
}

/** The proxies that call a service. */
export function usersOf(service: number, proxies: number, services: number, each: number): readonly number[] {
  return Array.from({ length: proxies }, (_, index) => index).filter((index) =>
    usedBy(index, services, each).includes(service),
  );
}
