/** Parts that several clusters and listeners of the bootstrap have. */
import { SDS_CLUSTER } from '../../core/proxy.ts';
import type { JsonObject } from '../../protobuf/index.ts';

/** Secrets that the agent serves. */
export const CERTIFICATE_SECRET = 'default';
export const ROOTS_SECRET = 'ROOTCA';

/** Envoy waits for the secret: without it the control plane cannot be reached. */
export function secret(name: string): JsonObject {
  return {
    name,
    sds_config: {
      resource_api_version: 'V3',
      initial_fetch_timeout: '0s',
      api_config_source: {
        api_type: 'GRPC',
        transport_api_version: 'V3',
        set_node_on_first_message_only: true,
        grpc_services: [{ envoy_grpc: { cluster_name: SDS_CLUSTER } }],
      },
    },
  };
}

export function http2(options: JsonObject, common?: JsonObject): JsonObject {
  return {
    typed_extension_protocol_options: {
      'envoy.extensions.upstreams.http.v3.HttpProtocolOptions': {
        '@type': 'type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions',
        ...(common === undefined ? {} : { common_http_protocol_options: common }),
        explicit_http_config: { http2_protocol_options: options },
      },
    },
  };
}

export function members(cluster: string, lbEndpoint: JsonObject): JsonObject {
  return { load_assignment: { cluster_name: cluster, endpoints: [{ lb_endpoints: [lbEndpoint] }] } };
}

export function endpoint(where: JsonObject): JsonObject {
  return { endpoint: { address: where } };
}

/** @param both for an IPv6 wildcard that accepts IPv4 as well */
export function address(host: string, port: number, both = false): JsonObject {
  return { socket_address: { address: host, port_value: port, ...(both ? { ipv4_compat: true } : {}) } };
}
