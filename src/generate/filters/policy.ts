/**
 * The policy component: the filters that ask it for decisions about requests and connections, and the access loggers
 * that send it records. Proxies have them only where a rule may apply to their traffic, and reach the component by a
 * cluster of their bootstrap that leads to the control plane.
 */
import { POLICY_CLUSTER, POLICY_NAMESPACE_METADATA, XDS_CLUSTER } from '../../core/proxy.ts';
import { envoy } from '../../protobuf/index.ts';
import { API_VERSION_V3, toDuration } from '../common/index.ts';
import type { PolicyNeeds } from '../indexes/index.ts';
import type { MeshReader } from '../reads/index.ts';
import type { EnvoyView } from '../views.ts';
import { type TypedConfig, typedConfig } from './extensions.ts';
import type { ServiceLog } from './telemetry/access-log.ts';

const { ExtAuthz } = envoy.extensions.filters.http.ext_authz.v3;
const { ExtAuthz: NetworkExtAuthz } = envoy.extensions.filters.network.ext_authz.v3;

const NETWORK_EXT_AUTHZ = 'envoy.filters.network.ext_authz';
const HTTP_EXT_AUTHZ = 'envoy.filters.http.ext_authz';
const NAME = 'mesh_policy';

/** Longer than the longest timeout of an adapter outside, which is 5 s. */
const TIMEOUT_MS = 6_000;

/**
 * The filter that asks for decisions. If there is none, for whatever reason, the request is refused with 503: another
 * status than that of a decision.
 */
export function decisionFilters(view: EnvoyView): TypedConfig[] {
  if (needsOf(view).checks !== true) return [];
  return [
    typedConfig(HTTP_EXT_AUTHZ, ExtAuthz, {
      grpcService: grpcServiceOf(view),
      transportApiVersion: API_VERSION_V3,
      failureModeAllow: false,
      statusOnError: { code: envoy.type.v3.StatusCode.ServiceUnavailable },
      includeTlsSession: true,
      // Header operations of rules may decide the route.
      clearRouteCache: true,
      // A response with a header that HTTP does not allow is a failure.
      validateMutations: true,
      statPrefix: NAME,
    }),
  ];
}

/**
 * The filter of TCP connections. Envoy asks when the client has sent its first bytes; a connection that is refused, or
 * about which there is no decision, is closed.
 */
export function connectionDecisions(view: EnvoyView): TypedConfig[] {
  if (needsOf(view).connections !== true) return [];
  return [
    typedConfig(NETWORK_EXT_AUTHZ, NetworkExtAuthz, {
      statPrefix: NAME,
      grpcService: grpcServiceOf(view),
      transportApiVersion: API_VERSION_V3,
      failureModeAllow: false,
      includeTlsSession: true,
    }),
  ];
}

function grpcServiceOf(view: EnvoyView): envoy.config.core.v3.GrpcService.Input {
  return {
    envoyGrpc: { clusterName: clusterOf(view) },
    timeout: toDuration(TIMEOUT_MS),
    initialMetadata: [metadataOf(view)],
  };
}

/** The loggers that send records. */
export function recordLogs(snapshot: MeshReader, view: EnvoyView): ServiceLog[] {
  if (needsOf(view).reports !== true) return [];
  const namespaces = new Set([snapshot.settings.rootNamespace, view.namespace]);
  const recording = [...namespaces].flatMap((each) => snapshot.policyTraffic.get(each) ?? []);
  const names = (of: 'requestHeaders' | 'responseHeaders') =>
    [...new Set(recording.flatMap((each) => each[of]))].sort();
  const common = { to: 'service', cluster: clusterOf(view), logName: NAME, metadata: metadataOf(view) } as const;
  const [requestHeaders, responseHeaders] = [names('requestHeaders'), names('responseHeaders')];
  const responseTrailers = ['grpc-message', 'grpc-status'];
  return [
    { ...common, of: 'requests', requestHeaders, responseHeaders, responseTrailers },
    { ...common, of: 'connections' },
  ];
}

/** Outgoing traffic is judged where it arrives. */
function needsOf(view: EnvoyView): PolicyNeeds {
  return (view.part === 'outbound' ? undefined : view.policy) ?? {};
}

function clusterOf({ capabilities }: EnvoyView): string {
  return capabilities.policyCluster === true ? POLICY_CLUSTER : XDS_CLUSTER;
}

function metadataOf({ namespace }: EnvoyView): { readonly key: string; readonly value: string } {
  return { key: POLICY_NAMESPACE_METADATA, value: namespace };
}
