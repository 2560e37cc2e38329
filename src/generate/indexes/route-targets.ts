/** Where the routes of virtual services lead. */
import type { ResolvedVirtualService } from '../../model/types.ts';
import type { Destination } from '../../resources/schemas.ts';

/** Every destination of a virtual service's routes, mirrors among them; one may come several times. */
export function* destinationsOf({ content }: ResolvedVirtualService): Generator<Destination> {
  for (const http of content.http ?? []) {
    for (const { destination } of http.route ?? []) yield destination;
    if (http.mirror !== undefined) yield http.mirror;
    for (const { destination } of http.mirrors ?? []) yield destination;
  }
  for (const { route } of [...(content.tcp ?? []), ...(content.tls ?? [])]) {
    for (const { destination } of route ?? []) yield destination;
  }
}

const hostsByList = new WeakMap<readonly ResolvedVirtualService[], ReadonlySet<string>>();

/** The hosts that a list of virtual services leads to; computed once per list. */
export function targetHosts(list: readonly ResolvedVirtualService[]): ReadonlySet<string> {
  let hosts = hostsByList.get(list);
  if (hosts === undefined) {
    const found = new Set<string>();
    for (const virtualService of list) for (const { host } of destinationsOf(virtualService)) found.add(host);
    hosts = found;
    hostsByList.set(list, hosts);
  }
  return hosts;
}
