/**
 * Which domains services and hosts have, and which virtual host of a route configuration gets each: for sidecars and
 * gateways alike.
 */
export { type DomainIndex, domainIndex, type IndexedHost, ownHosts } from './domain-index.ts';
export {
  type ClaimedDomains,
  claimedDomains,
  domainsOfClaim,
  isDisjoint,
  type LostDomain,
  type SidecarClaim,
  settleClaims,
  settleDomains,
  takesAll,
} from './ownership.ts';
export { commonHosts, type ServerHost, serverHost } from './server-hosts.ts';
export { hostDomains, serviceDomains, type Viewer, viewerOf } from './service-domains.ts';
