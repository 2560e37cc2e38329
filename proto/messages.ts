/**
 * The messages that are compiled: .proto file → root messages of it. Everything reachable from a root through its
 * fields comes along; nothing else does, so that the generated module stays small enough to load in every worker.
 *
 * Most of Envoy's extensions are reached only through `google.protobuf.Any`, so each one in use stands here by name.
 * A name that is not defined fails the build. Messages of Envoy's API come from `proto/descriptors`, those of our own
 * from the .proto files here.
 */
export const COMPILED_MESSAGES: Readonly<Record<string, readonly string[]>> = {
  // Well-known types: named because they travel inside Any or are encoded on their own.
  'google/protobuf/any.proto': ['google.protobuf.Any'],
  'google/protobuf/duration.proto': ['google.protobuf.Duration'],
  'google/protobuf/empty.proto': ['google.protobuf.Empty'],
  'google/protobuf/struct.proto': ['google.protobuf.Struct', 'google.protobuf.Value', 'google.protobuf.ListValue'],
  'google/protobuf/timestamp.proto': ['google.protobuf.Timestamp'],
  'google/protobuf/wrappers.proto': [
    'google.protobuf.BoolValue',
    'google.protobuf.BytesValue',
    'google.protobuf.DoubleValue',
    'google.protobuf.FloatValue',
    'google.protobuf.Int32Value',
    'google.protobuf.Int64Value',
    'google.protobuf.StringValue',
    'google.protobuf.UInt32Value',
    'google.protobuf.UInt64Value',
  ],
  'google/rpc/status.proto': ['google.rpc.Status'],

  // The discovery protocol and what it carries.
  'envoy/service/discovery/v3/discovery.proto': [
    'envoy.service.discovery.v3.DiscoveryRequest',
    'envoy.service.discovery.v3.DiscoveryResponse',
    'envoy.service.discovery.v3.DeltaDiscoveryRequest',
    'envoy.service.discovery.v3.DeltaDiscoveryResponse',
    'envoy.service.discovery.v3.Resource',
  ],
  'envoy/config/cluster/v3/cluster.proto': ['envoy.config.cluster.v3.Cluster'],
  'envoy/config/endpoint/v3/endpoint.proto': ['envoy.config.endpoint.v3.ClusterLoadAssignment'],
  'envoy/config/listener/v3/listener.proto': ['envoy.config.listener.v3.Listener'],
  'envoy/config/route/v3/route.proto': ['envoy.config.route.v3.RouteConfiguration'],
  // How a patch of an EnvoyFilter configures an extension whose message is not compiled.
  'xds/type/v3/typed_struct.proto': ['xds.type.v3.TypedStruct'],
  'envoy/config/core/v3/extension.proto': ['envoy.config.core.v3.TypedExtensionConfig'],
  'envoy/extensions/transport_sockets/tls/v3/secret.proto': ['envoy.extensions.transport_sockets.tls.v3.Secret'],

  // The certificate authority's service.
  'mesh/v1/auth/ca.proto': [
    'mesh.v1.auth.MeshCertificateRequest',
    'mesh.v1.auth.MeshCertificateResponse',
    'mesh.v1.auth.TrustBundleRequest',
    'mesh.v1.auth.TrustBundleResponse',
  ],

  // The protocol of configuration sources; the documents themselves: DOCUMENT_MESSAGES.
  'istio/mcp/v1alpha1/mcp.proto': [
    'istio.mcp.v1alpha1.RequestResources',
    'istio.mcp.v1alpha1.Resource',
    'istio.mcp.v1alpha1.Resources',
  ],
  'istio/networking/v1alpha3/networking.proto': [],
  'istio/networking/v1beta1/proxy_config.proto': [],
  'istio/policy/v1beta1/policy.proto': [],
  'istio/security/v1beta1/security.proto': [],
  'istio/telemetry/v1alpha1/telemetry.proto': [],

  // The services of the policy component: decisions about requests, and records of them.
  'envoy/service/auth/v3/external_auth.proto': [
    'envoy.service.auth.v3.CheckRequest',
    'envoy.service.auth.v3.CheckResponse',
  ],
  'envoy/service/accesslog/v3/als.proto': ['envoy.service.accesslog.v3.StreamAccessLogsMessage'],

  // The names that an agent's DNS server answers.
  'istio/networking/nds/v1/nds.proto': ['istio.networking.nds.v1.NameTable'],

  // Messages of the agent alone: AGENT_MESSAGES.
  'google/security/meshca/v1/meshca.proto': [],
  'grpc/health/v1/health.proto': [],
  'spiffe/workload/workload.proto': [],

  // The proxy's own start configuration, for the agent's bootstrap and for tests.
  'envoy/config/bootstrap/v3/bootstrap.proto': ['envoy.config.bootstrap.v3.Bootstrap'],

  // Upstream: protocol options, transport sockets, clusters, load balancing.
  'envoy/extensions/upstreams/http/v3/http_protocol_options.proto': [
    'envoy.extensions.upstreams.http.v3.HttpProtocolOptions',
  ],
  'envoy/extensions/upstreams/tcp/v3/tcp_protocol_options.proto': [
    'envoy.extensions.upstreams.tcp.v3.TcpProtocolOptions',
  ],
  'envoy/extensions/transport_sockets/tls/v3/tls.proto': [
    'envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext',
    'envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext',
    'envoy.extensions.transport_sockets.tls.v3.CommonTlsContext',
  ],
  'envoy/extensions/transport_sockets/tls/v3/tls_spiffe_validator_config.proto': [
    'envoy.extensions.transport_sockets.tls.v3.SPIFFECertValidatorConfig',
  ],
  'envoy/extensions/transport_sockets/raw_buffer/v3/raw_buffer.proto': [
    'envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer',
  ],
  'envoy/extensions/transport_sockets/proxy_protocol/v3/upstream_proxy_protocol.proto': [
    'envoy.extensions.transport_sockets.proxy_protocol.v3.ProxyProtocolUpstreamTransport',
  ],
  'envoy/extensions/clusters/dns/v3/dns_cluster.proto': ['envoy.extensions.clusters.dns.v3.DnsCluster'],
  'envoy/extensions/clusters/dynamic_forward_proxy/v3/cluster.proto': [
    'envoy.extensions.clusters.dynamic_forward_proxy.v3.ClusterConfig',
  ],
  'envoy/extensions/clusters/aggregate/v3/cluster.proto': ['envoy.extensions.clusters.aggregate.v3.ClusterConfig'],

  // Network filters.
  'envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager.proto': [
    'envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager',
  ],
  'envoy/extensions/filters/network/tcp_proxy/v3/tcp_proxy.proto': [
    'envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy',
  ],
  'envoy/extensions/filters/network/rbac/v3/rbac.proto': ['envoy.extensions.filters.network.rbac.v3.RBAC'],
  'envoy/extensions/filters/network/sni_cluster/v3/sni_cluster.proto': [
    'envoy.extensions.filters.network.sni_cluster.v3.SniCluster',
  ],
  'envoy/extensions/filters/network/sni_dynamic_forward_proxy/v3/sni_dynamic_forward_proxy.proto': [
    'envoy.extensions.filters.network.sni_dynamic_forward_proxy.v3.FilterConfig',
  ],
  'envoy/extensions/filters/network/echo/v3/echo.proto': ['envoy.extensions.filters.network.echo.v3.Echo'],
  'envoy/extensions/filters/network/direct_response/v3/config.proto': [
    'envoy.extensions.filters.network.direct_response.v3.Config',
  ],
  'envoy/extensions/filters/network/redis_proxy/v3/redis_proxy.proto': [
    'envoy.extensions.filters.network.redis_proxy.v3.RedisProxy',
  ],
  'envoy/extensions/filters/network/mongo_proxy/v3/mongo_proxy.proto': [
    'envoy.extensions.filters.network.mongo_proxy.v3.MongoProxy',
  ],
  'envoy/extensions/filters/network/thrift_proxy/v3/thrift_proxy.proto': [
    'envoy.extensions.filters.network.thrift_proxy.v3.ThriftProxy',
  ],
  'envoy/extensions/filters/network/thrift_proxy/filters/ratelimit/v3/rate_limit.proto': [
    'envoy.extensions.filters.network.thrift_proxy.filters.ratelimit.v3.RateLimit',
  ],
  'envoy/extensions/filters/network/thrift_proxy/router/v3/router.proto': [
    'envoy.extensions.filters.network.thrift_proxy.router.v3.Router',
  ],

  // UDP filters.
  'envoy/extensions/filters/udp/dns_filter/v3/dns_filter.proto': [
    'envoy.extensions.filters.udp.dns_filter.v3.DnsFilterConfig',
  ],
  'envoy/extensions/network/dns_resolver/cares/v3/cares_dns_resolver.proto': [
    'envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig',
  ],

  // HTTP filters.
  'envoy/extensions/filters/http/on_demand/v3/on_demand.proto': ['envoy.extensions.filters.http.on_demand.v3.OnDemand'],
  'envoy/extensions/filters/http/router/v3/router.proto': ['envoy.extensions.filters.http.router.v3.Router'],
  'envoy/extensions/filters/http/rbac/v3/rbac.proto': [
    'envoy.extensions.filters.http.rbac.v3.RBAC',
    'envoy.extensions.filters.http.rbac.v3.RBACPerRoute',
  ],
  'envoy/extensions/filters/http/jwt_authn/v3/config.proto': [
    'envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication',
    'envoy.extensions.filters.http.jwt_authn.v3.PerRouteConfig',
  ],
  'envoy/extensions/http/early_header_mutation/header_mutation/v3/header_mutation.proto': [
    'envoy.extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation',
  ],
  'envoy/extensions/filters/http/fault/v3/fault.proto': ['envoy.extensions.filters.http.fault.v3.HTTPFault'],
  'envoy/extensions/filters/http/cors/v3/cors.proto': [
    'envoy.extensions.filters.http.cors.v3.Cors',
    'envoy.extensions.filters.http.cors.v3.CorsPolicy',
  ],
  'envoy/extensions/filters/http/grpc_stats/v3/config.proto': [
    'envoy.extensions.filters.http.grpc_stats.v3.FilterConfig',
  ],
  'envoy/extensions/filters/http/grpc_web/v3/grpc_web.proto': ['envoy.extensions.filters.http.grpc_web.v3.GrpcWeb'],
  'envoy/extensions/filters/http/ext_authz/v3/ext_authz.proto': [
    'envoy.extensions.filters.http.ext_authz.v3.ExtAuthz',
    'envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute',
  ],
  'envoy/extensions/filters/network/ext_authz/v3/ext_authz.proto': [
    'envoy.extensions.filters.network.ext_authz.v3.ExtAuthz',
  ],
  'envoy/extensions/filters/http/local_ratelimit/v3/local_rate_limit.proto': [
    'envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit',
  ],
  'envoy/extensions/filters/http/ratelimit/v3/rate_limit.proto': [
    'envoy.extensions.filters.http.ratelimit.v3.RateLimit',
  ],
  'envoy/extensions/filters/http/lua/v3/lua.proto': [
    'envoy.extensions.filters.http.lua.v3.Lua',
    'envoy.extensions.filters.http.lua.v3.LuaPerRoute',
  ],
  'envoy/extensions/filters/http/buffer/v3/buffer.proto': ['envoy.extensions.filters.http.buffer.v3.Buffer'],
  'envoy/extensions/filters/http/compressor/v3/compressor.proto': [
    'envoy.extensions.filters.http.compressor.v3.Compressor',
  ],
  'envoy/extensions/filters/http/header_to_metadata/v3/header_to_metadata.proto': [
    'envoy.extensions.filters.http.header_to_metadata.v3.Config',
  ],
  'envoy/extensions/filters/network/set_filter_state/v3/set_filter_state.proto': [
    'envoy.extensions.filters.network.set_filter_state.v3.Config',
  ],
  'envoy/extensions/filters/http/set_filter_state/v3/set_filter_state.proto': [
    'envoy.extensions.filters.http.set_filter_state.v3.Config',
  ],
  'envoy/extensions/filters/http/health_check/v3/health_check.proto': [
    'envoy.extensions.filters.http.health_check.v3.HealthCheck',
  ],
  'envoy/extensions/filters/http/dynamic_forward_proxy/v3/dynamic_forward_proxy.proto': [
    'envoy.extensions.filters.http.dynamic_forward_proxy.v3.FilterConfig',
  ],
  'envoy/extensions/filters/http/wasm/v3/wasm.proto': ['envoy.extensions.filters.http.wasm.v3.Wasm'],

  // How retries choose hosts and localities.
  'envoy/extensions/retry/host/previous_hosts/v3/previous_hosts.proto': [
    'envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate',
  ],
  'envoy/extensions/retry/priority/previous_priorities/v3/previous_priorities_config.proto': [
    'envoy.extensions.retry.priority.previous_priorities.v3.PreviousPrioritiesConfig',
  ],

  // Listener filters.
  'envoy/extensions/filters/listener/tls_inspector/v3/tls_inspector.proto': [
    'envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector',
  ],
  'envoy/extensions/filters/listener/http_inspector/v3/http_inspector.proto': [
    'envoy.extensions.filters.listener.http_inspector.v3.HttpInspector',
  ],
  'envoy/extensions/filters/listener/original_dst/v3/original_dst.proto': [
    'envoy.extensions.filters.listener.original_dst.v3.OriginalDst',
  ],
  'envoy/extensions/filters/listener/original_src/v3/original_src.proto': [
    'envoy.extensions.filters.listener.original_src.v3.OriginalSrc',
  ],
  'envoy/extensions/filters/listener/proxy_protocol/v3/proxy_protocol.proto': [
    'envoy.extensions.filters.listener.proxy_protocol.v3.ProxyProtocol',
  ],

  // Access logs and tracers.
  'envoy/extensions/access_loggers/file/v3/file.proto': ['envoy.extensions.access_loggers.file.v3.FileAccessLog'],
  'envoy/extensions/access_loggers/stream/v3/stream.proto': [
    'envoy.extensions.access_loggers.stream.v3.StdoutAccessLog',
    'envoy.extensions.access_loggers.stream.v3.StderrAccessLog',
  ],
  'envoy/extensions/access_loggers/grpc/v3/als.proto': [
    'envoy.extensions.access_loggers.grpc.v3.HttpGrpcAccessLogConfig',
    'envoy.extensions.access_loggers.grpc.v3.TcpGrpcAccessLogConfig',
  ],
  'envoy/extensions/access_loggers/open_telemetry/v3/logs_service.proto': [
    'envoy.extensions.access_loggers.open_telemetry.v3.OpenTelemetryAccessLogConfig',
  ],
  'envoy/extensions/access_loggers/filters/cel/v3/cel.proto': [
    'envoy.extensions.access_loggers.filters.cel.v3.ExpressionFilter',
  ],
  'envoy/extensions/access_loggers/stats/v3/stats.proto': ['envoy.extensions.access_loggers.stats.v3.Config'],
  'envoy/extensions/request_id/uuid/v3/uuid.proto': ['envoy.extensions.request_id.uuid.v3.UuidRequestIdConfig'],
  'envoy/config/trace/v3/zipkin.proto': ['envoy.config.trace.v3.ZipkinConfig'],
  'envoy/config/trace/v3/datadog.proto': ['envoy.config.trace.v3.DatadogConfig'],
  'envoy/config/trace/v3/skywalking.proto': ['envoy.config.trace.v3.SkyWalkingConfig'],
  'envoy/extensions/tracers/opentelemetry/resource_detectors/v3/environment_resource_detector.proto': [
    'envoy.extensions.tracers.opentelemetry.resource_detectors.v3.EnvironmentResourceDetectorConfig',
  ],
  'envoy/config/trace/v3/opentelemetry.proto': ['envoy.config.trace.v3.OpenTelemetryConfig'],

  // What Envoy's admin interface and status services print: read by tests and debug pages.
  'envoy/admin/v3/config_dump.proto': ['envoy.admin.v3.ConfigDump'],
  'envoy/admin/v3/config_dump_shared.proto': [
    'envoy.admin.v3.ClustersConfigDump',
    'envoy.admin.v3.EndpointsConfigDump',
    'envoy.admin.v3.ListenersConfigDump',
    'envoy.admin.v3.RoutesConfigDump',
    'envoy.admin.v3.ScopedRoutesConfigDump',
    'envoy.admin.v3.SecretsConfigDump',
  ],
  'envoy/service/status/v3/csds.proto': [
    'envoy.service.status.v3.ClientStatusRequest',
    'envoy.service.status.v3.ClientStatusResponse',
  ],
};

/**
 * The messages of the agent. They are compiled into a small module of their own: the agent runs beside each workload,
 * and the module with all of Envoy's messages would need more memory than the rest of it.
 */
export const AGENT_MESSAGES: readonly string[] = [
  'envoy.service.discovery.v3.DeltaDiscoveryRequest',
  'envoy.service.discovery.v3.DeltaDiscoveryResponse',
  'envoy.service.discovery.v3.DiscoveryRequest',
  'envoy.service.discovery.v3.DiscoveryResponse',
  'envoy.extensions.transport_sockets.tls.v3.Secret',
  'envoy.extensions.transport_sockets.tls.v3.SPIFFECertValidatorConfig',
  'google.security.meshca.v1.MeshCertificateRequest',
  'google.security.meshca.v1.MeshCertificateResponse',
  'grpc.health.v1.HealthCheckRequest',
  'grpc.health.v1.HealthCheckResponse',
  'istio.networking.nds.v1.NameTable',
  'mesh.v1.auth.MeshCertificateRequest',
  'mesh.v1.auth.MeshCertificateResponse',
  'mesh.v1.auth.TrustBundleRequest',
  'mesh.v1.auth.TrustBundleResponse',
  'spiffe.workload.X509SVIDRequest',
  'spiffe.workload.X509SVIDResponse',
];

/**
 * The documents of the mesh as configuration protocols carry them. Only their descriptors are made, in a module that is
 * loaded by programs that use such a protocol.
 */
export const DOCUMENT_MESSAGES: readonly string[] = [
  'istio.networking.v1alpha3.DestinationRule',
  'istio.networking.v1alpha3.EnvoyFilter',
  'istio.networking.v1alpha3.Gateway',
  'istio.networking.v1alpha3.ServiceEntry',
  'istio.networking.v1alpha3.Sidecar',
  'istio.networking.v1alpha3.VirtualService',
  'istio.networking.v1alpha3.WorkloadEntry',
  'istio.networking.v1alpha3.WorkloadGroup',
  'istio.networking.v1beta1.ProxyConfig',
  'istio.policy.v1beta1.AttributeManifest',
  'istio.policy.v1beta1.Handler',
  'istio.policy.v1beta1.Instance',
  'istio.policy.v1beta1.Rule',
  'istio.security.v1beta1.AuthorizationPolicy',
  'istio.security.v1beta1.PeerAuthentication',
  'istio.security.v1beta1.RequestAuthentication',
  'istio.telemetry.v1alpha1.Telemetry',
];
