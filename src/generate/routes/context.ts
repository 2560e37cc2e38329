/**
 * The inputs of the routes of one virtual host in addition to its virtual services and service.
 *
 * Everything that can differ between two generations of the same virtual host is read through {@link RouteLookups},
 * whose results are primitives or objects that keep their identity while they are unchanged: a cache can repeat the
 * lookups and thereby determine whether its bytes are still valid (see `virtual-host-cache.ts`).
 */
import type { Memos } from '../../core/memo.ts';
import type { ConsistentHash } from '../../resources/index.ts';
import { effectivePolicy } from '../common/index.ts';
import {
  type AskedExtension,
  CORS_FILTER,
  FAULT_FILTER,
  hasExtension,
  isTraced,
  PREVIOUS_HOSTS,
  PREVIOUS_PRIORITIES,
} from '../filters/index.ts';
import type { MeshReader, ScopeReader } from '../reads/index.ts';
import type { EnvoyView } from '../views.ts';

/** Lookups of a virtual host's inputs. */
export interface RouteLookups {
  /** The port of a service that has only one; undefined for unknown services and for those with several. */
  onlyPort(host: string): number | undefined;
  /** The hash policy in the destination rule for this cluster. */
  consistentHash(host: string, subset: string, port: number): ConsistentHash | undefined;
  isFrom(namespace: string): boolean;
  hasLabels(labels: Readonly<Record<string, string>>): boolean;
  /**
   * The inputs of all lookups that do not depend on the source of the requests: if they are equal, so are the results.
   * Absent if not known.
   */
  readonly sources?: LookupSources;
}

/** Compared by identity. A scope has another finder of destination rules when it may find others. */
export type LookupSources = Pick<ScopeReader, 'services' | 'rules'>;

/** The extensions of the receiving Envoy that routes use. */
export interface RouteFeatures {
  readonly cors: boolean;
  readonly fault: boolean;
  /** Retries that avoid hosts already tried. */
  readonly previousHosts: boolean;
  /** Retries that prefer localities not yet tried. */
  readonly previousPriorities: boolean;
  /** Spans: each route names its operation. */
  readonly traced: boolean;
}

export interface RouteContext {
  readonly memos: Memos;
  /** `mesh` or `namespace/name` of the gateway. */
  readonly gateway: string;
  /** The port that clients use: decides `match.port` and is the default port of destinations. */
  readonly port: number;
  /** Milliseconds; 0 is none. */
  readonly defaultTimeoutMs: number;
  readonly features: RouteFeatures;
  readonly lookups: RouteLookups;
}

/** The part of a cache key for the fields of a context other than port and lookups. */
export function contextKey({ gateway, defaultTimeoutMs, features }: RouteContext): string {
  const { cors, fault, previousHosts, previousPriorities, traced } = features;
  return [gateway, defaultTimeoutMs, cors, fault, previousHosts, previousPriorities, traced].join(' ');
}

export const MESH_GATEWAY = 'mesh';

/** A node that sent no list of its extensions is assumed to have them all. */
export function routeFeatures(snapshot: MeshReader, view: EnvoyView): RouteFeatures {
  const has = (name: AskedExtension) => hasExtension(view, name);
  return {
    cors: has(CORS_FILTER),
    fault: has(FAULT_FILTER),
    previousHosts: has(PREVIOUS_HOSTS),
    previousPriorities: has(PREVIOUS_PRIORITIES),
    traced: isTraced(snapshot, view),
  };
}

/**
 * Lookups in a scope, for requests from workloads of a namespace with these labels. @param at the port of the requests,
 * if they may be for any service on it
 */
export function scopeLookups(
  { services, rules }: LookupSources,
  source: { readonly namespace: string; readonly labels: Readonly<Record<string, string>> },
  at?: number,
): RouteLookups {
  return {
    onlyPort(host) {
      const ports = services.get(host)?.ports;
      return ports?.length === 1 ? ports[0]?.port : undefined;
    },
    consistentHash: (host, subset, port) =>
      effectivePolicy(rules.asReadAt(at, host, services, 'hash of requests'), subset, port).loadBalancer
        ?.consistentHash,
    isFrom: (namespace) => namespace === source.namespace,
    hasLabels: (labels) => Object.entries(labels).every(([key, value]) => source.labels[key] === value),
    sources: { services, rules },
  };
}
