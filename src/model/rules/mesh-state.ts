/**
 * The mesh state, which generation reads: services, their visibility, routes, rules, and other configuration. The main
 * thread and every worker have one, built from the same changes. The maps are persistent, so the next state shares
 * everything that a change does not touch. Other modules read it through `MeshSnapshot`.
 */
import type { Memos } from '../../core/memo.ts';
import { PMap } from '../../core/pmap.ts';
import type { MeshConfig, MeshNetworks, Resource } from '../../resources/index.ts';
import type { Groups } from '../common/groups.ts';
import { emptyTables, type ResourceTables } from '../common/tables.ts';
import {
  CONFIG_KINDS,
  type ConfigKind,
  type Endpoint,
  type ModelSettings,
  type NameConflict,
  type NetworkGateways,
  type Service,
  type ServicePeers,
} from '../types/types.ts';
import type { RuleTable } from './destination-rules.ts';
import { NO_VIRTUAL_SERVICES, type VirtualServiceTables } from './virtual-services.ts';

export interface MeshState {
  readonly version: number;
  readonly memos: Memos;
  readonly settings: ModelSettings;
  readonly mesh: MeshConfig;
  readonly networks: MeshNetworks;
  readonly workloadRanges: readonly string[];
  readonly networkGateways: NetworkGateways;
  readonly configs: ResourceTables<ConfigKind>;

  readonly services: PMap<Service>;
  readonly peers: PMap<ServicePeers>;
  /** For services with {@link carriesEndpoints}. */
  readonly carriedEndpoints: PMap<readonly Endpoint[]>;

  /** Host name → all services with it: Kubernetes Services first, then oldest first, then by namespace. */
  readonly claimants: PMap<readonly Service[]>;
  /** Host name → its services that are in force. */
  readonly servicesByHost: PMap<readonly Service[]>;
  /** Host name → the first of its services that is visible everywhere. */
  readonly publicServices: PMap<Service>;
  /** Host names with several services in force, all under the key `''`. */
  readonly sharedHosts: Groups;
  /** Namespace → host names that it defines. */
  readonly hostsByNamespace: Groups;
  /** Namespace → host names that other namespaces export to it by name. */
  readonly hostsExportedTo: Groups;
  /** Wildcard host names of services, all under the key `''`. */
  readonly wildcardHosts: Groups;

  readonly virtualServices: VirtualServiceTables;
  readonly rules: RuleTable;
  /** Number of subsets that several rules for one host define. */
  readonly duplicateSubsets: number;
  /** Namespace → its Sidecars, oldest first. */
  readonly sidecars: PMap<readonly Resource<'Sidecar'>[]>;
  /** In precedence order. */
  readonly gateways: readonly Resource<'Gateway'>[];
  /** `host:…` or the key of a virtual service → its conflicts about hosts owned by others. */
  readonly nameConflicts: PMap<readonly NameConflict[]>;
}

/**
 * Whether generation reads a service's endpoints: clusters contain them if proxies resolve names, and endpoints of
 * headless services are the addresses of DNS names and of listeners for their Pods. Endpoints of all other services are
 * only sent by EDS.
 */
export function carriesEndpoints({ resolution, headless }: Service): boolean {
  return resolution === 'dns' || headless;
}

export function emptyMesh(settings: ModelSettings, mesh: MeshConfig, networks: MeshNetworks, memos: Memos): MeshState {
  const groups: Groups = PMap.empty();
  return {
    version: 1,
    memos,
    settings,
    mesh,
    networks,
    workloadRanges: [],
    networkGateways: new Map(),
    configs: emptyTables(CONFIG_KINDS),
    services: PMap.empty(),
    peers: PMap.empty(),
    carriedEndpoints: PMap.empty(),
    claimants: PMap.empty(),
    servicesByHost: PMap.empty(),
    publicServices: PMap.empty(),
    sharedHosts: groups,
    hostsByNamespace: groups,
    hostsExportedTo: groups,
    wildcardHosts: groups,
    virtualServices: NO_VIRTUAL_SERVICES,
    rules: PMap.empty(),
    duplicateSubsets: 0,
    sidecars: PMap.empty(),
    gateways: [],
    nameConflicts: PMap.empty(),
  };
}
