/**
 * More of the random mesh: resources that only some proxies see, hosts that several resources name and that wildcards
 * cover, several listeners of one Sidecar, and enough services on one port for every code path for many services.
 */
import {
  bulkHosts,
  endpoints,
  entryIn,
  exported,
  filter,
  mesh,
  policy,
  route,
  rule,
  service,
  sidecarIn,
} from './random-mesh-texts.ts';

const ADDED_LISTENER = '{name: added, address: {socket_address: {address: 127.0.0.1, port_value: 1}}}';
const TYPED_FILTER =
  "{name: added, typed_config: {'@type': type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer, max_request_bytes: 9}}";

/** Each slot is one resource: absent, or in one of these forms. */
export const WIDE_SLOTS: readonly (readonly string[])[] = [
  // Two namespaces that name the same host, with different visibility.
  [
    entryIn('d', 'names', 'DNS', '{hosts: [x.example.com, s.example.com], endpoints: [{address: d.example.com}]'),
    entryIn('d', 'names', 'STATIC', "{hosts: [x.example.com], exportTo: ['.', c], endpoints: [{address: 10.0.3.9}]"),
    entryIn(
      'd',
      'names',
      'DNS',
      "{hosts: ['*.example.com', web.a.svc.cluster.local], exportTo: [b], endpoints: [{address: d.example.com}]",
    ),
  ],
  // Enough services on one port for every code path for many services.
  [
    entryIn('b', 'bulk', 'STATIC', `{hosts: [${bulkHosts(0, 70)}], endpoints: [{address: 10.0.3.1}]`),
    entryIn('b', 'bulk', 'STATIC', `{hosts: [${bulkHosts(1, 70)}], endpoints: [{address: 10.0.3.1}]`),
    entryIn(
      'b',
      'bulk',
      'STATIC',
      `{hosts: [${bulkHosts(0, 68)}, x.example.com], endpoints: [{address: 10.0.3.1}, {address: 10.0.3.2}]`,
    ),
    entryIn('b', 'bulk', 'STATIC', `{hosts: [${bulkHosts(0, 70)}], exportTo: [c, d], endpoints: [{address: 10.0.3.1}]`),
    entryIn('b', 'bulk', 'STATIC', `{hosts: [${bulkHosts(40, 110)}], endpoints: [{address: 10.0.3.1}]`),
  ],
  [
    entryIn('c', 'one', 'STATIC', '{hosts: [n035.bulk.test], endpoints: [{address: 10.0.3.7}]'),
    entryIn(
      'c',
      'one',
      'STATIC',
      "{hosts: [n035.bulk.test, n200.bulk.test, zz.bulk.test], exportTo: ['.'], endpoints: [{address: 10.0.3.7}]",
    ),
    entryIn(
      'c',
      'one',
      'STATIC',
      "{hosts: ['n035.bulk.test', aa.bulk.test], exportTo: [a], endpoints: [{address: 10.0.3.7}]",
    ),
  ],
  [
    route(
      'c',
      'bulk',
      "{hosts: ['*.bulk.test'], http: [{match: [{headers: {a: {exact: b}}}], retries: {attempts: 3}, route: [{destination: {host: web.a.svc.cluster.local}}]}, {route: [{destination: {host: n001.bulk.test}}]}]}",
    ),
    route(
      'c',
      'bulk',
      "{hosts: [n001.bulk.test, n002.bulk.test, other.test], exportTo: [a, '.'], http: [{match: [{uri: {prefix: /a}}, {uri: {prefix: /b}}], timeout: 3s, route: [{destination: {host: n003.bulk.test}}]}, {route: [{destination: {host: n002.bulk.test}}]}]}",
    ),
    route(
      'c',
      'bulk',
      "{hosts: ['*.test', web.a.svc.cluster.local], gateways: [mesh, b/edge], exportTo: ['*'], http: [{route: [{destination: {host: api.b.svc.cluster.local}}]}]}",
    ),
    route(
      'c',
      'bulk',
      "{hosts: ['*.svc.cluster.local', n060.bulk.test], http: [{route: [{destination: {host: web.a.svc.cluster.local}, weight: 10}, {destination: {host: n001.bulk.test}, weight: 90}]}]}",
    ),
    route(
      'c',
      'bulk',
      "{hosts: ['*.bulk.test', db.a.svc.cluster.local], tcp: [{match: [{port: 80}], route: [{destination: {host: n001.bulk.test}}]}], tls: [{match: [{sniHosts: ['*.bulk.test']}], route: [{destination: {host: n002.bulk.test}}]}]}",
    ),
  ],
  [
    route(
      'd',
      'wide',
      "{hosts: ['*.bulk.test', web.a.svc.cluster.local], http: [{match: [{sourceNamespace: a}, {uri: {prefix: /x}}], route: [{destination: {host: n005.bulk.test}}]}, {route: [{destination: {host: n004.bulk.test}}]}]}",
    ),
    route(
      'd',
      'wide',
      '{hosts: [n005.bulk.test, more], exportTo: [c], http: [{match: [{sourceLabels: {app: web}}], route: [{destination: {host: n004.bulk.test}}]}, {route: [{destination: {host: more}}]}]}',
    ),
    route(
      'd',
      'wide',
      "{hosts: ['*.local', '*.test'], exportTo: ['~'], http: [{route: [{destination: {host: more}}]}]}",
    ),
    route(
      'd',
      'wide',
      "{hosts: ['*.local', '*.test'], http: [{match: [{port: 80}], route: [{destination: {host: more}}]}]}",
    ),
  ],
  [
    rule(
      'mesh-system',
      'all',
      "{host: '*.svc.cluster.local', trafficPolicy: {loadBalancer: {consistentHash: {httpHeaderName: x-all}}}}",
    ),
    rule('mesh-system', 'all', "{host: '*', trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}}"),
    rule(
      'mesh-system',
      'all',
      "{host: '*.bulk.test', exportTo: [c], trafficPolicy: {loadBalancer: {consistentHash: {useSourceIp: true}}}}",
    ),
    rule(
      'mesh-system',
      'all',
      "{host: n003.bulk.test, exportTo: ['.'], trafficPolicy: {loadBalancer: {consistentHash: {useSourceIp: true}}}}",
    ),
  ],
  [
    rule(
      'b',
      'bulk',
      "{host: n003.bulk.test, trafficPolicy: {loadBalancer: {consistentHash: {httpHeaderName: x-b}}}, subsets: [{name: v1, labels: {v: '1'}}]}",
    ),
    rule(
      'b',
      'bulk',
      '{host: n035.bulk.test, exportTo: [a, c], trafficPolicy: {loadBalancer: {consistentHash: {useSourceIp: true}}}}',
    ),
    rule('b', 'bulk', "{host: '*.bulk.test', trafficPolicy: {outlierDetection: {consecutive5xxErrors: 4}}}"),
    rule('b', 'bulk', '{host: web.a.svc.cluster.local, trafficPolicy: {tls: {mode: SIMPLE}}}'),
  ],
  [
    sidecarIn('a', 'web', "{workloadSelector: {labels: {app: web}}, egress: [{hosts: ['./*', 'b/*']}]}"),
    sidecarIn(
      'a',
      'web',
      "{outboundTrafficPolicy: {mode: ALLOW_ANY, egressProxy: {host: more.d.svc.cluster.local, port: {number: 3306}}}, egress: [{hosts: ['b/*']}]}",
    ),
    sidecarIn(
      'a',
      'web',
      "{egress: [{port: {number: 80, protocol: HTTP, name: http}, hosts: ['b/*', 'd/*']}, {port: {number: 3306, protocol: TCP, name: tcp}, hosts: ['a/*']}, {hosts: ['*/*']}]}",
    ),
    sidecarIn(
      'a',
      'web',
      "{workloadSelector: {labels: {app: web}}, outboundTrafficPolicy: {mode: REGISTRY_ONLY}, egress: [{hosts: ['*/n003.bulk.test', 'd/more.d.svc.cluster.local']}]}",
    ),
  ],
  [
    sidecarIn('mesh-system', 'root', "{egress: [{hosts: ['./*', 'a/*']}]}"),
    sidecarIn('mesh-system', 'root', '{outboundTrafficPolicy: {mode: REGISTRY_ONLY}}'),
    sidecarIn(
      'mesh-system',
      'root',
      '{outboundTrafficPolicy: {mode: ALLOW_ANY, egressProxy: {host: web.a.svc.cluster.local, port: {number: 80}}}}',
    ),
    sidecarIn('mesh-system', 'root', "{egress: [{hosts: ['*/*.bulk.test', '*/*']}]}"),
    sidecarIn('mesh-system', 'root', '{inboundConnectionPool: {tcp: {maxConnections: 7}}}'),
  ],
  [
    exported(service('d', 'seen', '10.96.0.5', [80, 90]), '.'),
    exported(service('d', 'seen', '10.96.0.5', [80], 'tcp'), 'a,c'),
    exported(service('d', 'seen', '10.96.0.5', [80, 90], 'any'), '~'),
    service('d', 'seen', '10.96.0.5', [91], 'tcp'),
    service('d', 'seen', '10.96.0.4', [80], 'https'),
  ],
  [
    endpoints('d', 'seen', ['10.0.4.1'], [80, 90]),
    endpoints('d', 'seen', ['10.0.4.1', '10.0.4.2'], [80, 90]),
    endpoints('d', 'seen', [], [80]),
  ],
  [
    mesh(
      'Gateway',
      'd',
      'edge',
      "{selector: {app: edge}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['d/*', 'c/other.test']}]}",
    ),
    mesh(
      'Gateway',
      'd',
      'edge',
      "{selector: {app: edge}, servers: [{port: {number: 443, name: tls, protocol: TLS}, hosts: ['*.bulk.test'], tls: {mode: PASSTHROUGH}}]}",
    ),
  ],
  [
    route(
      'd',
      'in',
      "{hosts: [n005.bulk.test, '*.seen.test'], gateways: [d/edge, b/edge], http: [{retries: {attempts: 2}, match: [{uri: {prefix: /q}}, {uri: {exact: /r}}], route: [{destination: {host: n005.bulk.test}}]}, {route: [{destination: {host: seen}}]}]}",
    ),
    route(
      'd',
      'in',
      "{hosts: ['*.bulk.test'], gateways: [edge], exportTo: [b], tls: [{match: [{sniHosts: [n005.bulk.test]}], route: [{destination: {host: n005.bulk.test}}]}]}",
    ),
    route(
      'd',
      'in',
      "{hosts: ['*.test'], gateways: [edge, mesh], exportTo: ['.'], http: [{route: [{destination: {host: seen}}]}]}",
    ),
  ],
  [
    '{apiVersion: v1, kind: Namespace, metadata: {name: a, labels: {topology.mesh.io/network: n2}}}',
    '{apiVersion: v1, kind: Namespace, metadata: {name: a, labels: {x: y}}}',
  ],
  [policy('d', '{mtls: {mode: DISABLE}}'), policy('d', '{mtls: {mode: STRICT}, selector: {matchLabels: {app: seen}}}')],
  [
    mesh('WorkloadEntry', 'a', 'we', '{address: 10.0.0.7, labels: {app: web}, ports: {http-80: 8000}, network: n2}'),
    mesh('WorkloadEntry', 'a', 'we', '{address: 10.0.0.8, labels: {app: bulk}, locality: r2/z1}'),
  ],
  [
    filter(
      'a',
      '{workloadSelector: {labels: {app: web}}, configPatches: [{applyTo: CLUSTER, patch: {operation: MERGE, value: {alt_stat_name: x}}}]}',
    ),
    filter(
      'a',
      '{configPatches: [{applyTo: CLUSTER, match: {context: SIDECAR_INBOUND}, patch: {operation: MERGE, value: {alt_stat_name: y}}}, {applyTo: HTTP_ROUTE, patch: {operation: MERGE, value: {name: patched}}}]}',
    ),
    filter('a', '{configPatches: [{applyTo: VIRTUAL_HOST, patch: {operation: REMOVE}}]}'),
    filter(
      'a',
      `{configPatches: [{applyTo: HTTP_FILTER, match: {listener: {portName: http}}, patch: {operation: ADD, filterClass: STATS, value: ${TYPED_FILTER}}}, {applyTo: VIRTUAL_HOST, match: {routeConfiguration: {vhost: {domainName: web}}}, patch: {operation: MERGE, value: {include_request_attempt_count: false}}}]}`,
    ),
    filter(
      'a',
      '{configPatches: [{applyTo: CLUSTER, match: {context: SIDECAR_INBOUND}, patch: {operation: ADD, value: {name: added, connect_timeout: 3s}}}]}',
    ),
  ],
  [
    filter(
      'mesh-system',
      `{configPatches: [{applyTo: CLUSTER, patch: {operation: ADD, value: {name: added, connect_timeout: 1s}}}, {applyTo: LISTENER, patch: {operation: ADD, value: ${ADDED_LISTENER}}}]}`,
    ),
    filter(
      'mesh-system',
      '{configPatches: [{applyTo: CLUSTER, patch: {operation: ADD, value: {name: added, connect_timeout: 2s}}}]}',
    ),
    filter(
      'mesh-system',
      '{configPatches: [{applyTo: LISTENER, match: {context: GATEWAY}, patch: {operation: MERGE, value: {stat_prefix: patched}}}, {applyTo: NETWORK_FILTER, patch: {operation: REMOVE}}]}',
    ),
  ],
];
