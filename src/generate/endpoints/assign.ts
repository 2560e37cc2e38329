/**
 * Computes the load assignment of a cluster from a service's endpoints: selects them by port and subset, replaces
 * endpoints of other networks by their gateways, and groups them by locality. The result is plain data with two
 * encoders: bytes for EDS (`encode.ts`) and a message for clusters that contain their endpoints (`message.ts`).
 */
import type { Endpoint, Health, NetworkGateway } from '../../model/index.ts';
import { isIpAddress, isSocketPath } from '../common/index.ts';
import { rankOf } from './failover-priority.ts';
import { shareLocalities } from './locality.ts';
import type { EndpointsInput } from './resolve.ts';

export interface AssignedEndpoint {
  readonly address: string;
  readonly port: number;
  /** At least 1. */
  readonly weight: number;
  readonly health: Health;
  /** Whether it accepts mesh mutual TLS. */
  readonly tlsReady: boolean;
}

export interface AssignedLocality {
  readonly locality: string;
  readonly weight: number;
  readonly priority: number;
  readonly endpoints: readonly AssignedEndpoint[];
}

export interface Assignment {
  readonly clusterName: string;
  /** By priority, then in code-unit order of localities. */
  readonly localities: readonly AssignedLocality[];
}

const MAX_WEIGHT = 0xffffffff;

/** The load assignment of a cluster. Equal inputs have equal results; the order of endpoints is that of the service. */
export function assignEndpoints(input: EndpointsInput): Assignment {
  const groups = viaGateways(group(input), input).map((each) => ({ ...each, weight: sumOfWeights(each.endpoints) }));
  const localities = shareLocalities(groups, input.locality).map(({ locality, weight, priority, endpoints }) => ({
    locality,
    weight,
    priority,
    endpoints,
  }));
  localities.sort(
    (a, b) => a.priority - b.priority || (a.locality < b.locality ? -1 : a.locality > b.locality ? 1 : 0),
  );
  return { clusterName: input.name, localities: withinLimits(localities) };
}

/** An endpoint before grouping; `network` decides whether it is reached directly. */
interface Candidate extends AssignedEndpoint {
  readonly network: string;
}

/** Endpoints of one locality and rank: see `failover-priority.ts`. */
interface Group<E extends AssignedEndpoint> {
  readonly locality: string;
  readonly rank: number;
  readonly endpoints: readonly E[];
}

function group(input: EndpointsInput): Group<Candidate>[] {
  const groups = new Map<string, { locality: string; rank: number; endpoints: Candidate[] }>();
  const priorities = input.locality?.priorities;
  const known = new Set<string>();
  for (const endpoint of input.endpoints) {
    if (!isChosen(input, endpoint)) continue;
    const { address, port, health, network, locality, tlsReady } = endpoint;
    if (input.isGrpc) {
      const socketAddress = `${address} ${port}`;
      if (known.has(socketAddress)) continue;
      known.add(socketAddress);
    }
    // 0 means absent in workload entries, and Envoy rejects it.
    const candidate = { address, port, weight: Math.max(1, endpoint.weight ?? 1), health, tlsReady, network };
    const rank = priorities === undefined ? 0 : rankOf(priorities, endpoint);
    const key = rank === 0 ? locality : `${locality} ${rank}`;
    const members = groups.get(key);
    if (members === undefined) groups.set(key, { locality, rank, endpoints: [candidate] });
    else members.endpoints.push(candidate);
  }
  return [...groups.values()];
}

function isChosen(input: EndpointsInput, endpoint: Endpoint): boolean {
  if (endpoint.servicePort !== input.portName) return false;
  if (input.passedOn && !(endpoint.tlsReady && isDirectlyReachable(input, endpoint.network))) return false;
  if (input.isGrpc && (isSocketPath(endpoint.address) || !isDirectlyReachable(input, endpoint.network))) return false;
  for (const [key, value] of Object.entries(input.labels)) if (endpoint.labels[key] !== value) return false;
  if (input.resolvesNames) return !isSocketPath(endpoint.address);
  // A single host name would make Envoy reject the whole assignment.
  return isSocketPath(endpoint.address) || isIpAddress(endpoint.address);
}

/** Whether endpoints of a network are reached by their own addresses. */
function isDirectlyReachable({ network, gateways }: EndpointsInput, other: string): boolean {
  return other === network || !gateways.has(other);
}

/**
 * Endpoints of other networks are not reachable by their own addresses: the gateways of their network replace them,
 * with the sum of their weights. Without a known gateway they are left out. All weights are multiplied so that the sum
 * can be divided evenly among the gateways.
 */
function viaGateways(groups: readonly Group<Candidate>[], input: EndpointsInput): readonly Group<AssignedEndpoint>[] {
  const { gateways, network } = input;
  if (gateways.size === 0) return groups;
  const factor = [...gateways.values()].reduce(
    (multiple, { length }) => (length === 0 ? multiple : leastCommonMultiple(multiple, length)),
    1,
  );
  const result: Group<AssignedEndpoint>[] = [];
  for (const { locality, rank, endpoints: candidates } of groups) {
    const endpoints: AssignedEndpoint[] = [];
    const remote = new Map<readonly NetworkGateway[], { weight: number; tlsReady: boolean }>();
    for (const candidate of candidates) {
      const through = candidate.network === network ? undefined : gateways.get(candidate.network);
      if (through === undefined) endpoints.push({ ...candidate, weight: candidate.weight * factor });
      else if (candidate.health === 'healthy') {
        // A gateway passes mutual TLS through, only to endpoints that accept it. Plain text does not name its
        // destination, so endpoints without mutual TLS only count if no endpoint accepts it.
        const { weight, tlsReady } = remote.get(through) ?? { weight: 0, tlsReady: false };
        if (candidate.tlsReady && !tlsReady) remote.set(through, { weight: candidate.weight, tlsReady: true });
        else if (candidate.tlsReady === tlsReady) remote.set(through, { weight: weight + candidate.weight, tlsReady });
      }
    }
    for (const [through, { weight, tlsReady }] of remote) {
      const share = (weight * factor) / through.length;
      for (const { address, port } of through) {
        endpoints.push({ address, port, weight: share, health: 'healthy', tlsReady });
      }
    }
    if (endpoints.length > 0) result.push({ locality, rank, endpoints });
  }
  return result;
}

function leastCommonMultiple(a: number, b: number): number {
  let [x, y] = [a, b];
  while (y !== 0) [x, y] = [y, x % y];
  return (a / x) * b;
}

function sumOfWeights(endpoints: readonly AssignedEndpoint[]): number {
  return endpoints.reduce((sum, { weight }) => sum + weight, 0);
}

/**
 * Envoy rejects an assignment if the sum of weights exceeds 32 bits, within a locality or for all localities: all
 * weights are then scaled down equally.
 */
function withinLimits(localities: readonly AssignedLocality[]): readonly AssignedLocality[] {
  const total = localities.reduce((sum, { weight, endpoints }) => sum + Math.max(weight, sumOfWeights(endpoints)), 0);
  if (total <= MAX_WEIGHT) return localities;
  // Half of the limit, because rounding up to 1 must not exceed it again.
  const scale = MAX_WEIGHT / 2 / total;
  const scaled = (weight: number) => Math.max(1, Math.floor(weight * scale));
  return localities.map(({ locality, priority, weight, endpoints }) => ({
    locality,
    priority,
    weight: scaled(weight),
    endpoints: endpoints.map((endpoint) => ({ ...endpoint, weight: scaled(endpoint.weight) })),
  }));
}
