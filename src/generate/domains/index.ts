/**
 * Which domains services and hosts have, and which virtual host of a route configuration owns each: for sidecars and
 * gateways.
 */
export { type DomainIndex, domainIndex, type IndexedHost, ownHosts } from './domain-index.ts';
export { DomainOwners, type ViewedOwners } from './domain-owners.ts';
export {
  type CandidateDomains,
  candidateDomains,
  domainsOfCandidate,
  isDisjoint,
  type LostDomain,
  type SidecarCandidate,
  settleCandidates,
  settleDomains,
  takesAll,
} from './ownership.ts';
export { commonHosts, type ServerHost, serverHost } from './server-hosts.ts';
export { hostDomains, serviceDomains, type Viewer, viewerOf } from './service-domains.ts';
