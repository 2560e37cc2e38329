/**
 * Decides which namespace owns a host name that documents of several namespaces use. A name below the mesh's DNS domain
 * belongs to the namespace that it contains. Documents about names of other namespaces apply at most to callers in the
 * document's own namespace. The rules are in docs/tenants.md; those about addresses are in `address-owners.ts`.
 */
import type { MeshConfig } from '../../resources/index.ts';
import { isWildcardHost } from '../common/hosts.ts';
import { isIpAddress } from '../common/networks.ts';
import { isPublic } from '../common/visibility.ts';
import type { ModelSettings, NameConflict, Service } from '../types/types.ts';

/** Replaces the namespace for wildcards that match names of several namespaces. */
const SEVERAL = '*';

/** The settings that decide about names in addition to the documents. */
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
      // The first label of a wildcard may be the end of a label: `*op.svc` matches names of every namespace that ends
      // in `op`.
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
 * The effective normalised `exportTo` of a document about a name of another namespace: the document's own namespace, if
 * it is exported there.
 */
export function ownCallersOnly(exportTo: readonly string[]): readonly string[] {
  return isPublic(exportTo) || exportTo.includes('.') ? ['.'] : ['~'];
}

/**
 * The services of one host name that are in force, in order of precedence: ServiceEntries are not in force while there
 * is a Service.
 */
export function servicesInForce(services: readonly Service[]): readonly Service[] {
  return services[0]?.registry === 'Orchestrator'
    ? services.filter(({ registry }) => registry === 'Orchestrator')
    : services;
}

/** The conflicts of services about one host name. `services` has all services of the host, in order of precedence. */
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
 * Whether routes of `namespace` for a host may apply to callers of other namespaces. A host that is an address belongs
 * to the owner of the address.
 */
export function mayRouteForOthers(host: string, namespace: string, context: OwnershipContext): boolean {
  if (isIpAddress(host)) return decidesForAll(namespace, context);
  return mayClaimForOthers(host, namespace, context);
}
