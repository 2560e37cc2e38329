/** The start configuration of a test's Envoy: an admin port, static resources if any, and ADS if a server is named. */
import { fromProtoJson, type JsonObject, type JsonValue, toProtoJson } from '../../src/protobuf/index.ts';

const BOOTSTRAP = 'envoy.config.bootstrap.v3.Bootstrap';

/** Short, so that tests of a restarted server need not wait; production proxies use longer ones. */
const RECONNECT_BASE = '0.100s';
const RECONNECT_MAX = '0.500s';

export interface BootstrapOptions {
  /** Node id, such as `sidecar~127.0.1.1~a.default~default.svc.cluster.local`. */
  readonly id: string;
  readonly metadata?: JsonObject;
  readonly locality?: { readonly region?: string; readonly zone?: string; readonly sub_zone?: string };
  readonly adminAddress: string;
  readonly adminPort: number;
  /** Where ADS is served; none means static resources only. */
  readonly ads?: { readonly address: string; readonly port: number; readonly mode: 'sotw' | 'delta' };
  /** Where Envoy resolves names; default: as the machine does. */
  readonly dnsServer?: { readonly address: string; readonly port: number };
  /** `envoy.config.bootstrap.v3.Bootstrap.StaticResources` in JSON form. */
  readonly staticResources?: { readonly clusters?: readonly JsonValue[]; readonly listeners?: readonly JsonValue[] };
}

function adsCluster(address: string, port: number): JsonObject {
  return {
    name: 'xds-grpc',
    type: 'STATIC',
    connect_timeout: '1s',
    load_assignment: {
      cluster_name: 'xds-grpc',
      endpoints: [{ lb_endpoints: [{ endpoint: { address: { socket_address: { address, port_value: port } } } }] }],
    },
    typed_extension_protocol_options: {
      'envoy.extensions.upstreams.http.v3.HttpProtocolOptions': {
        '@type': 'type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions',
        explicit_http_config: { http2_protocol_options: {} },
      },
    },
  };
}

function dynamicResources(mode: 'sotw' | 'delta'): JsonObject {
  const fromAds = { ads: {}, resource_api_version: 'V3', initial_fetch_timeout: '0s' };
  return {
    ads_config: {
      api_type: mode === 'delta' ? 'DELTA_GRPC' : 'GRPC',
      transport_api_version: 'V3',
      set_node_on_first_message_only: true,
      grpc_services: [
        {
          envoy_grpc: {
            cluster_name: 'xds-grpc',
            retry_policy: { retry_back_off: { base_interval: RECONNECT_BASE, max_interval: RECONNECT_MAX } },
          },
        },
      ],
    },
    cds_config: fromAds,
    lds_config: fromAds,
  };
}

function resolver({ address, port }: { readonly address: string; readonly port: number }): JsonObject {
  return {
    name: 'envoy.network.dns_resolver.cares',
    typed_config: {
      '@type': 'type.googleapis.com/envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig',
      resolvers: [{ socket_address: { address, port_value: port } }],
      dns_resolver_options: { no_default_search_domain: true },
    },
  };
}

/**
 * The bootstrap in JSON form. It was converted to the binary form and back, so that a field that Envoy does not have is
 * an error here.
 */
export function bootstrapJson(options: BootstrapOptions): JsonValue {
  const { id, metadata = {}, locality, adminAddress, adminPort, ads, dnsServer, staticResources } = options;
  const bootstrap: JsonObject = {
    node: { id, cluster: id.split('~')[2] ?? id, metadata, ...(locality === undefined ? {} : { locality }) },
    admin: { address: { socket_address: { address: adminAddress, port_value: adminPort } } },
    // Envoy's default limit for regular expressions is too low for what users write; sidecars start with this one.
    layered_runtime: {
      layers: [
        { name: 'static', static_layer: { 're2.max_program_size.error_level': 32768 } },
        { name: 'admin', admin_layer: {} },
      ],
    },
    ...(dnsServer ? { typed_dns_resolver_config: resolver(dnsServer) } : {}),
    static_resources: {
      listeners: staticResources?.listeners ?? [],
      clusters: [...(staticResources?.clusters ?? []), ...(ads ? [adsCluster(ads.address, ads.port)] : [])],
    },
    ...(ads ? { dynamic_resources: dynamicResources(ads.mode) } : {}),
  };
  return toProtoJson(BOOTSTRAP, fromProtoJson(BOOTSTRAP, bootstrap));
}
