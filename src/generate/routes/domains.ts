/** Under which `Host` headers a service or host is known to clients. */
import type { Service } from '../../model/types.ts';
import { isIpAddress } from '../values.ts';

const domainsOfService = new WeakMap<Service, Map<string, readonly string[]>>();

/**
 * All domains of a service's port: the full name, the short forms that resolve where the proxy is, and its addresses, each
 * with and without the port. A headless service has its pods' names (`web-0.web.…`) too.
 *
 * `dnsDomain` is that of the proxy's namespace, such as `default.svc.cluster.local`.
 */
export function serviceDomains(service: Service, port: number, dnsDomain: string): readonly string[] {
  let known = domainsOfService.get(service);
  if (known === undefined) {
    known = new Map();
    domainsOfService.set(service, known);
  }
  const key = `${port} ${dnsDomain}`;
  let domains = known.get(key);
  if (domains === undefined) {
    domains = makeServiceDomains(service, port, dnsDomain);
    known.set(key, domains);
  }
  return domains;
}

/** Domains of a host that is no service. */
export function hostDomains(host: string, port: number): readonly string[] {
  return host === '*' ? ['*'] : [host, `${host}:${port}`];
}

function makeServiceDomains(service: Service, port: number, dnsDomain: string): readonly string[] {
  const names = [service.hostname, ...shortForms(service.hostname, dnsDomain)];
  const podNames = service.headless ? names.map((name) => `*.${name}`) : [];
  const addresses = service.addresses.filter((address) => isIpAddress(address) && !isUnspecified(address));
  const hosts = [...names, ...podNames, ...addresses.map(hostOfAddress)];
  return [...new Set(hosts.flatMap((host) => hostDomains(host, port)))];
}

/**
 * `reviews.default.svc.cluster.local` seen from `default.svc.cluster.local`: `reviews`, `reviews.default`,
 * `reviews.default.svc`; seen from another namespace, without the first.
 */
function shortForms(hostname: string, dnsDomain: string): string[] {
  const [namespace, service, ...suffix] = dnsDomain.split('.');
  if (namespace === undefined || service === undefined || suffix.length === 0) return [];
  const shared = `.${[service, ...suffix].join('.')}`;
  if (!hostname.endsWith(shared)) return [];
  const unique = hostname.slice(0, -shared.length);
  const own = `.${namespace}`;
  const forms = [unique, `${unique}.${service}`];
  return unique.endsWith(own) ? [unique.slice(0, -own.length), ...forms] : forms;
}

function hostOfAddress(address: string): string {
  return address.includes(':') ? `[${address}]` : address;
}

function isUnspecified(address: string): boolean {
  return address === '0.0.0.0' || address === '::';
}
