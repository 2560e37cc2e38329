/** The `Host` headers with which clients address a service or host. */
import type { Memos } from '../../core/memo.ts';
import type { Service } from '../../model/index.ts';
import { isIpAddress } from '../common/index.ts';

/** The properties of clients that short names depend on. */
export interface Viewer {
  /** Their namespace; undefined if it has no services here. */
  readonly namespace: string | undefined;
  /** The part after the namespace in full names, such as `.svc.cluster.local`; '' when there are no short names. */
  readonly shared: string;
  /** Suffix of the names of the namespace's own services. */
  readonly own: string;
  /** Set if clients always name the port with the host. */
  readonly onlyWithPort?: true;
}

/**
 * @param dnsDomain the domain of the proxy's namespace, such as `default.svc.cluster.local`
 */
export function viewerOf(dnsDomain: string, onlyWithPort?: true): Viewer {
  const [namespace, service, ...suffix] = dnsDomain.split('.');
  const form = onlyWithPort && { onlyWithPort };
  if (namespace === undefined || service === undefined || suffix.length === 0) return { ...NO_DOMAINS, ...form };
  const shared = `.${[service, ...suffix].join('.')}`;
  return { namespace, shared, own: `.${namespace}${shared}`, ...form };
}

const NO_DOMAINS: Viewer = { namespace: undefined, shared: '', own: '' };

export function foreignViewer({ namespace: _, ...viewer }: Viewer): Viewer {
  return { ...viewer, namespace: undefined, own: '' };
}

/** The part of a cache key for differences between viewers without own services. */
export function viewerKey({ shared, onlyWithPort }: Viewer): string {
  return onlyWithPort === true ? `:${shared}` : shared;
}

/** Whether a service is in the viewer's namespace: its first label is then a name for it. */
export function isOwn({ hostname }: Service, { own }: Viewer): boolean {
  return own !== '' && hostname.endsWith(own);
}

/** Caches domains of a service by the viewer's suffix and the port. */
type KnownDomains = Map<string, Map<number, readonly string[]>>;

/**
 * All domains of a service's port: the full name, the short forms that resolve for the proxy, and its addresses, each
 * with and without the port. A headless service has its pods' names (`web-0.web.…`) too. One list object for all
 * viewers with equal domains.
 */
export function serviceDomains(memos: Memos, service: Service, port: number, viewer: Viewer): readonly string[] {
  const { hostname } = service;
  const own = isOwn(service, viewer);
  const seenAs = viewerKey(own ? { ...viewer, shared: viewer.own } : viewer);
  const known = memos.weak<Service, KnownDomains>('domains of services').get(service, () => new Map());
  let byPort = known.get(seenAs);
  if (byPort === undefined) {
    byPort = new Map();
    known.set(seenAs, byPort);
  }
  let domains = byPort.get(port);
  if (domains === undefined) {
    domains = makeServiceDomains(service, port, shortForms(hostname, viewer, own), viewer);
    byPort.set(port, domains);
  }
  return domains;
}

export function hostDomains(
  host: string,
  port: number,
  { onlyWithPort }: Pick<Viewer, 'onlyWithPort'>,
): readonly string[] {
  if (onlyWithPort === true) return [`${host}:${port}`];
  return host === '*' ? ['*'] : [host, `${host}:${port}`];
}

/** Up to so many addresses, domains are looked up in their list. */
const FEW_ADDRESSES = 16;

/** Of long lists of domains. */
const SETS = new WeakMap<readonly string[], ReadonlySet<string>>();

/** Whether a service has a domain. It may have tens of thousands, for its addresses. */
export function hasDomain(domains: readonly string[], domain: string): boolean {
  if (domains.length <= 4 * FEW_ADDRESSES) return domains.includes(domain);
  let known = SETS.get(domains);
  if (known === undefined) {
    known = new Set(domains);
    SETS.set(domains, known);
  }
  return known.has(domain);
}

function makeServiceDomains(
  service: Service,
  port: number,
  short: readonly string[],
  viewer: Viewer,
): readonly string[] {
  const domains: string[] = [];
  // Ten thousand services have such lists, which are short: a Set for each takes longer.
  const known = service.addresses.length > FEW_ADDRESSES ? new Set<string>() : undefined;
  const add = (host: string): void => {
    for (const domain of hostDomains(host, port, viewer)) {
      if (known === undefined ? domains.includes(domain) : known.has(domain)) continue;
      known?.add(domain);
      domains.push(domain);
    }
  };
  const names = [service.hostname, ...short];
  for (const name of names) add(name);
  if (service.headless) for (const name of names) add(`*.${name}`);
  for (const address of service.addresses)
    if (isIpAddress(address) && !isUnspecified(address)) add(hostOfAddress(address));
  return domains;
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
