/**
 * Traffic of the random mesh beyond hosts and ports: names that proxies resolve themselves, rules that change how TCP
 * and requests are forwarded, pools of both directions, and listeners of Sidecars for them.
 */
import { entryIn, route, rule, service, sidecarIn } from './random-mesh-texts.ts';

const RULE = (policy: string, more = ''): string =>
  rule('d', 'forwarded', `{host: forwarded, trafficPolicy: ${policy}${more}}`);

/** Each slot is one resource: absent, or in one of these forms. */
export const TRAFFIC_SLOTS: readonly (readonly string[])[] = [
  [
    service('d', 'forwarded', '10.96.0.7', [80, 90], 'tcp'),
    service('d', 'forwarded', '10.96.0.7', [80, 90]),
    service('d', 'forwarded', 'None', [90], 'any'),
  ],
  [
    RULE('{tunnel: {protocol: CONNECT, targetHost: t.test, targetPort: 1}}'),
    RULE('{tunnel: {protocol: POST, targetHost: t.test, targetPort: 2}}', ", exportTo: [a, '.']"),
    RULE('{proxyProtocol: {version: V2}, connectionPool: {tcp: {maxConnectionDuration: 9s}}}'),
    RULE(
      '{retryBudget: {percent: 30, budgetInterval: 3s}, connectionPool: {http: {http2KeepAlive: {interval: 9s, timeout: 1s}}}}',
    ),
    RULE('{loadBalancer: {simple: PASSTHROUGH}}'),
    RULE('{loadBalancer: {simple: ROUND_ROBIN, warmup: {duration: 9s}}}'),
    RULE(
      '{portLevelSettings: [{port: {number: 90}, connectionPool: {tcp: {idleTimeout: 4s}}, tls: {mode: SIMPLE}}]}',
      ', subsets: [{name: v1, labels: {v: "1"}, trafficPolicy: {loadBalancer: {consistentHash: {useSourceIp: true}}}}]',
    ),
  ],
  [
    route('d', 'forwarded', '{hosts: [forwarded], tcp: [{route: [{destination: {host: forwarded, subset: v1}}]}]}'),
    route('d', 'forwarded', '{hosts: [forwarded], http: [{route: [{destination: {host: forwarded, subset: v1}}]}]}'),
  ],
  // Names that proxies resolve themselves.
  [
    entryIn('b', 'dynamic', 'DYNAMIC_DNS', "{hosts: ['*.dynamic.test']"),
    entryIn('b', 'dynamic', 'DYNAMIC_DNS', "{hosts: ['*.dynamic.test', dynamic.test], exportTo: [a, b]"),
    entryIn('b', 'dynamic', 'DNS_ROUND_ROBIN', '{hosts: [dynamic.test], endpoints: [{address: one.example.com}]'),
    entryIn('b', 'dynamic', 'DNS', '{hosts: [deep.dynamic.test], addresses: [192.0.2.8]'),
  ],
  [
    rule('b', 'dynamic', "{host: '*.dynamic.test', trafficPolicy: {tls: {mode: SIMPLE}}}"),
    rule('b', 'dynamic', "{host: '*.dynamic.test', trafficPolicy: {connectionPool: {tcp: {idleTimeout: 3s}}}}"),
    rule('b', 'dynamic', '{host: dynamic.test, trafficPolicy: {loadBalancer: {simple: RANDOM}}}'),
  ],
  [
    route('b', 'dynamic', "{hosts: ['*.dynamic.test'], http: [{route: [{destination: {host: x.dynamic.test}}]}]}"),
    route(
      'b',
      'dynamic',
      '{hosts: [x.dynamic.test], gateways: [mesh, edge], http: [{route: [{destination: {host: x.dynamic.test}}]}]}',
    ),
    route(
      'b',
      'dynamic',
      "{hosts: ['*.dynamic.test'], tls: [{match: [{sniHosts: [x.dynamic.test]}], route: [{destination: {host: x.dynamic.test}}]}]}",
    ),
  ],
  // Pools of the workload itself, for all of its ports or for one.
  [
    sidecarIn('b', 'pools', '{inboundConnectionPool: {http: {maxRequestsPerConnection: 7}}}'),
    sidecarIn(
      'b',
      'pools',
      "{ingress: [{port: {number: 80, protocol: GRPC, name: grpc}, connectionPool: {tcp: {maxConnections: 6}}}], egress: [{hosts: ['./*', 'a/*']}]}",
    ),
    sidecarIn(
      'b',
      'pools',
      "{egress: [{port: {number: 15081, protocol: HTTP_PROXY, name: proxy}, hosts: ['./*', 'd/*']}], outboundTrafficPolicy: {mode: ALLOW_ANY, egressProxy: {host: forwarded.d.svc.cluster.local, subset: v1, port: {number: 90}}}}",
    ),
  ],
];
