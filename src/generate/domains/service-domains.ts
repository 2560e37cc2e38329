/** Under which `Host` headers a service or host is known to clients. */
import type { Memos } from '../../core/memo.ts';
import type { Service } from '../../model/types.ts';
import { isIpAddress } from '../common/index.ts';

/** Where clients are, as far as it decides which short names lead to services. */
export interface Viewer {
  /** Their namespace; undefined for one that has no services of its own here. */
  readonly namespace: string | undefined;
  /** What follows the namespace in full names, such as `.svc.cluster.local`; '' when there are no short names. */
  readonly shared: string;
  /** Ends the names of the namespace's own services. */
  readonly own: string;
}

/** @param dnsDomain that of the proxy's namespace, such as `default.svc.cluster.local` */
export function viewerOf(dnsDomain: string): Viewer {
  const [namespace, service, ...suffix] = dnsDomain.split('.');
  if (namespace === undefined || service === undefined || suffix.length === 0) return NOWHERE;
  const shared = `.${[service, ...suffix].join('.')}`;
  return { namespace, shared, own: `.${namespace}${shared}` };
}

const NOWHERE: Viewer = { namespace: undefined, shared: '', own: '' };

/** One who has no services of their own. */
export function foreignViewer({ shared }: Viewer): Viewer {
  return { namespace: undefined, shared, own: '' };
}

/** Whether a service is one of the viewer's own: they know it by its first name alone. */
export function isOwn({ hostname }: Service, { own }: Viewer): boolean {
  return own !== '' && hostname.endsWith(own);
}

/** Domains of a service by what they are made of: whose suffix, and the port. */
type KnownDomains = Map<string, Map<number, readonly string[]>>;

/**
 * All domains of a service's port: the full name, the short forms that resolve where the proxy is, and its addresses,
 * each with and without the port. A headless service has its pods' names (`web-0.web.…`) too. One list for all who see
 * the same.
 */
export function serviceDomains(memos: Memos, service: Service, port: number, viewer: Viewer): readonly string[] {
  const { hostname } = service;
  const own = isOwn(service, viewer);
  const seenAs = own ? viewer.own : viewer.shared;
  const known = memos.weak<Service, KnownDomains>('domains of services').get(service, () => new Map());
  let byPort = known.get(seenAs);
  if (byPort === undefined) {
    byPort = new Map();
    known.set(seenAs, byPort);
  }
  let domains = byPort.get(port);
  if (domains === undefined) {
    domains = makeServiceDomains(service, port, shortForms(hostname, viewer, own));
    byPort.set(port, domains);
  }
  return domains;
}

/** Domains of a host that is no service. */
export function hostDomains(host: string, port: number): readonly string[] {
  return host === '*' ? ['*'] : [host, `${host}:${port}`];
}

function makeServiceDomains(service: Service, port: number, short: readonly string[]): readonly string[] {
  const names = [service.hostname, ...short];
  const podNames = service.headless ? names.map((name) => `*.${name}`) : [];
  const addresses = service.addresses.filter((address) => isIpAddress(address) && !isUnspecified(address));
  const hosts = [...names, ...podNames, ...addresses.map(hostOfAddress)];
  return [...new Set(hosts.flatMap((host) => hostDomains(host, port)))];
}

/**
 * `reviews.default.svc.cluster.local` seen from `default.svc.cluster.local`: `reviews`, `reviews.default`,
 * `reviews.default.svc`; seen from another namespace, without the first.
 */
function shortForms(hostname: string, { shared, own }: Viewer, ownToo: boolean): string[] {
  if (shared === '' || !hostname.endsWith(shared)) return [];
  const unique = hostname.slice(0, -shared.length);
  const service = shared.slice(1).split('.', 1)[0] ?? '';
  const forms = [unique, `${unique}.${service}`];
  return ownToo ? [hostname.slice(0, -own.length), ...forms] : forms;
}

function hostOfAddress(address: string): string {
  return address.includes(':') ? `[${address}]` : address;
}

function isUnspecified(address: string): boolean {
  return address === '0.0.0.0' || address === '::';
}
