/**
 * The filters that forward connections of a protocol that Envoy reads: for statistics (MySQL, MongoDB), or to choose a
 * server for each command (Redis) or call (Thrift). As in Istio 1.7, each of MySQL, Redis and Thrift has a variable. A
 * proxy gets a filter if it lists the extension, which not all builds of Envoy have.
 */

import type { ModelSettings, Protocol } from '../../model/index.ts';
import { envoy, xds } from '../../protobuf/index.ts';
import { toDuration } from '../common/index.ts';
import {
  listsExtension,
  MONGO_FILTER,
  MYSQL_FILTER,
  type ProxyCapabilities,
  REDIS_FILTER,
  THRIFT_FILTER,
  type TypedConfig,
  typedConfig,
} from './extensions.ts';
import { BY_SOURCE, type ThriftRateLimit, thriftLimitFilters } from './thrift-rate-limit.ts';

/** The port to which clients connect. */
export interface ForwardedPort {
  readonly protocol: Protocol | undefined;
  readonly settings: ModelSettings;
  /** Limits of Thrift calls; undefined: none. */
  readonly rateLimit?: ThriftRateLimit | undefined;
}

export interface ForwardedTo {
  readonly statPrefix: string;
  /** The cluster; undefined if connections are divided among several clusters, or go through a tunnel. */
  readonly cluster: string | undefined;
  /** Whether connections go to their original destination, because the cluster has no endpoints. */
  readonly original: boolean;
}

/** As in Istio 1.7. */
const REDIS_TIMEOUT_MS = 5000;

/** Protocols whose bytes another filter may read. */
const READ: ReadonlySet<Protocol> = new Set<Protocol>(['Mongo', 'MySQL', 'Redis', 'Thrift']);

export function isRead(protocol: Protocol | undefined): boolean {
  return protocol !== undefined && READ.has(protocol);
}

/**
 * The filters for a protocol.
 * @param tcpProxy the filter that forwards the bytes of any protocol
 */
export function forwarded(
  view: ProxyCapabilities,
  { protocol, settings, rateLimit }: ForwardedPort,
  { statPrefix, cluster, original }: ForwardedTo,
  tcpProxy: TypedConfig,
): TypedConfig[] {
  switch (protocol) {
    case 'Mongo':
      return listsExtension(view, MONGO_FILTER) ? [mongoFilter(statPrefix), tcpProxy] : [tcpProxy];
    case 'MySQL':
      return settings.mysqlFilter && listsExtension(view, MYSQL_FILTER)
        ? [mysqlFilter(statPrefix), tcpProxy]
        : [tcpProxy];
    case 'Redis': {
      // The filter chooses a server by the key of each command.
      const reads = settings.redisFilter && cluster !== undefined && !original && listsExtension(view, REDIS_FILTER);
      return reads ? [redisFilter(statPrefix, cluster)] : [tcpProxy];
    }
    case 'Thrift': {
      const reads = settings.thriftFilter && cluster !== undefined && listsExtension(view, THRIFT_FILTER);
      return reads ? [thriftFilter(statPrefix, cluster, thriftLimitFilters(view, rateLimit))] : [tcpProxy];
    }
    default:
      return [tcpProxy];
  }
}

function mongoFilter(statPrefix: string): TypedConfig {
  return typedConfig(MONGO_FILTER, envoy.extensions.filters.network.mongo_proxy.v3.MongoProxy, { statPrefix });
}

/** The extension is not part of Envoy's own API. */
function mysqlFilter(statPrefix: string): TypedConfig {
  const typeUrl = 'type.googleapis.com/envoy.extensions.filters.network.mysql_proxy.v3.MySQLProxy';
  const value = { fields: { stat_prefix: { stringValue: statPrefix } } };
  return typedConfig(MYSQL_FILTER, xds.type.v3.TypedStruct, { typeUrl, value });
}

function redisFilter(statPrefix: string, cluster: string): TypedConfig {
  return typedConfig(REDIS_FILTER, envoy.extensions.filters.network.redis_proxy.v3.RedisProxy, {
    statPrefix,
    latencyInMicros: true,
    settings: { opTimeout: toDuration(REDIS_TIMEOUT_MS) },
    prefixRoutes: { catchAllRoute: { cluster } },
  });
}

/**
 * Each call goes to the cluster, on any transport and in any protocol that Envoy detects. @param thriftFilters the
 * filters of rate limits; empty without a limit
 */
function thriftFilter(statPrefix: string, cluster: string, thriftFilters: readonly TypedConfig[]): TypedConfig {
  const { ThriftProxy } = envoy.extensions.filters.network.thrift_proxy.v3;
  return typedConfig(THRIFT_FILTER, ThriftProxy, {
    statPrefix,
    routeConfig: {
      name: cluster,
      routes: [
        { match: { methodName: '' }, route: { cluster, ...(thriftFilters.length > 0 && { rateLimits: [BY_SOURCE] }) } },
      ],
    },
    ...(thriftFilters.length > 0 && { thriftFilters }),
  });
}
