/**
 * What the routes of one virtual host may read besides the virtual services and the service they are made of.
 *
 * Everything that can differ between two generations of the same virtual host is asked through {@link RouteLookups},
 * whose answers are primitives or objects that keep their identity as long as they are unchanged: a cache can then ask
 * the same questions again and know whether the bytes it holds still stand (see `virtual-host-cache.ts`).
 */
import type { Memos } from '../../core/memo.ts';
import type { ConsistentHash } from '../../resources/index.ts';
import { effectivePolicy } from '../common/index.ts';
import {
  type AskedExtension,
  CORS_FILTER,
  FAULT_FILTER,
  hasExtension,
  PREVIOUS_HOSTS,
  PREVIOUS_PRIORITIES,
  type ProxyCapabilities,
} from '../filters/index.ts';
import type { ScopeReader } from '../reads/index.ts';

/** Questions about the world around a virtual host. */
export interface RouteLookups {
  /** The port of a service that has only one; undefined for unknown services and for those with several. */
  onlyPort(host: string): number | undefined;
  /** How the destination rule wants requests to this cluster spread by hash. */
  consistentHash(host: string, subset: string, port: number): ConsistentHash | undefined;
  /** Whether the requesting workloads are of this namespace. */
  isFrom(namespace: string): boolean;
  /** Whether the requesting workloads have these labels. */
  hasLabels(labels: Readonly<Record<string, string>>): boolean;
  /**
   * All that the answers are made of that are not about who asks: where these are the same, so are the answers. Absent
   * when not known.
   */
  readonly sources?: LookupSources;
}

/** Compared by identity. A scope's finder of destination rules is another one when it may find others. */
export type LookupSources = Pick<ScopeReader, 'services' | 'rules'>;

/** What the receiving Envoy has built in, as far as routes use it. */
export interface RouteFeatures {
  readonly cors: boolean;
  readonly fault: boolean;
  /** Retries that avoid hosts already tried. */
  readonly previousHosts: boolean;
  /** Retries that prefer localities not yet tried. */
  readonly previousPriorities: boolean;
}

export interface RouteContext {
  readonly memos: Memos;
  /** `mesh` or `namespace/name` of the gateway. */
  readonly gateway: string;
  /** The port that clients address: decides `match.port` and is the destination port of last resort. */
  readonly port: number;
  /** Milliseconds; 0 is none. */
  readonly defaultTimeoutMs: number;
  readonly features: RouteFeatures;
  readonly lookups: RouteLookups;
}

/** The part of a key that says what a context holds besides port and lookups. */
export function contextKey({ gateway, defaultTimeoutMs, features }: RouteContext): string {
  const { cors, fault, previousHosts, previousPriorities } = features;
  return [gateway, defaultTimeoutMs, cors, fault, previousHosts, previousPriorities].join(' ');
}

/** `gateway` of routes that sidecars use. */
export const MESH_GATEWAY = 'mesh';

/** A node that sent no list of its extensions is taken to have them all. */
export function routeFeatures(view: ProxyCapabilities): RouteFeatures {
  const has = (name: AskedExtension) => hasExtension(view, name);
  return {
    cors: has(CORS_FILTER),
    fault: has(FAULT_FILTER),
    previousHosts: has(PREVIOUS_HOSTS),
    previousPriorities: has(PREVIOUS_PRIORITIES),
  };
}

/**
 * Lookups in a scope, for requests from workloads of a namespace with these labels.
 *
 * @param at the port that the requests come to, where they may be for any of its services
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
