/**
 * Who owns a host name that documents of several namespaces use. One below the mesh's own DNS domain is owned by the
 * namespace that it contains. A namespace's documents about names of others apply to its own callers at most. The rules
 * are in docs/tenants.md; those about addresses are in `address-owners.ts`.
 */
import type { MeshConfig } from '../../resources/index.ts';
import { isWildcardHost } from '../common/hosts.ts';
import { isIpAddress } from '../common/networks.ts';
import { isPublic } from '../common/visibility.ts';
import type { ModelSettings, NameConflict, Service } from '../types/types.ts';

/** In place of a namespace, for wildcards over names of several namespaces. */
const SEVERAL = '*';

/** What decides about names besides the documents. */
export interface OwnershipContext {
  readonly settings: Pick<ModelSettings, 'domain' | 'rootNamespace'>;
  readonly mesh: Pick<MeshConfig, 'trustedConfigNamespaces'>;
}

/**
 * Whether the documents of a namespace may decide for the callers of all namespaces: it is the root namespace, or the
 * operator trusts it.
 */
export function decidesForAll(namespace: string, { settings, mesh }: OwnershipContext): boolean {
  const { trustedConfigNamespaces: trusted } = mesh;
  return namespace === settings.rootNamespace || trusted.includes(namespace) || trusted.includes('*');
}

/**
 * The namespace that owns a host (lower case, possibly a wildcard) by its name: `shop` owns
 * `web.shop.svc.cluster.local`, `*.shop.svc.cluster.local` and `web.shop.svc`. {@link SEVERAL} for wildcards such as
 * `*.svc.cluster.local` and `*.local`; undefined for names outside the mesh's domain, which have no owner.
 */
function namespaceOfHost(host: string, domain: string): string | undefined {
  const wildcard = isWildcardHost(host);
  const suffix = wildcard ? host.slice(1) : host;
  for (const tail of [`.svc.${domain}`, '.svc']) {
    if (suffix.endsWith(tail)) {
      const labels = suffix.slice(0, -tail.length).split('.');
      // The first label of a wildcard may be the end of one: `*op.svc` covers names of every namespace that ends in
      // `op`.
      return wildcard && labels.length === 1 ? SEVERAL : labels.at(-1);
    }
    if (wildcard && tail.endsWith(suffix)) return SEVERAL;
  }
  return undefined;
}

/** Whether documents of `namespace` about a host may apply to callers of other namespaces. */
export function mayClaimForOthers(host: string, namespace: string, context: OwnershipContext): boolean {
  const owner = namespaceOfHost(host, context.settings.domain);
  return owner === undefined || owner === namespace || decidesForAll(namespace, context);
}

/**
 * The effective `exportTo` (normalised) of a document about a name of another namespace: its own callers, if it is
 * exported to them.
 */
export function ownCallersOnly(exportTo: readonly string[]): readonly string[] {
  return isPublic(exportTo) || exportTo.includes('.') ? ['.'] : ['~'];
}

/**
 * The services of one host name that are in force, in precedence order: no ServiceEntry is while there is an
 * orchestrator Service.
 */
export function servicesInForce(services: readonly Service[]): readonly Service[] {
  return services[0]?.registry === 'Orchestrator'
    ? services.filter(({ registry }) => registry === 'Orchestrator')
    : services;
}

/** The conflicts of services about one host name. `services` are all of the host, in precedence order. */
export function hostConflicts(services: readonly Service[], context: OwnershipContext): readonly NameConflict[] {
  const [first, ...others] = services;
  if (first === undefined || (others.length === 0 && first.registry === 'Orchestrator')) return [];
  const inForce = new Set(servicesInForce(services));
  const winner = services.find(({ exportTo }) => isPublic(exportTo)) ?? first;
  return services.flatMap((service): NameConflict[] => {
    const { hostname, source, namespace, registry } = service;
    const lost = (message: string) => [{ resource: source, message: `${source}: host ${hostname} ${message}` }];
    if (!inForce.has(service)) return lost(`belongs to ${first.source}; the entry is ignored for this host`);
    if (registry === 'External' && !mayClaimForOthers(hostname, namespace, context)) {
      return lost(`is a name of another namespace; the entry applies only to callers in ${namespace}`);
    }
    if (service === winner || !isPublic(service.exportTo)) return [];
    return lost(`belongs to ${winner.source}, which comes first; the entry applies only to callers in ${namespace}`);
  });
}

/**
 * Whether routes of `namespace` for a host may apply to callers of other namespaces. A host that is an address is that
 * of requests to the owner of the address.
 */
export function mayRouteForOthers(host: string, namespace: string, context: OwnershipContext): boolean {
  if (isIpAddress(host)) return decidesForAll(namespace, context);
  return mayClaimForOthers(host, namespace, context);
}
