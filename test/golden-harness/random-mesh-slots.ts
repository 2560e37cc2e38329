/** The parts of the random mesh: resources that refer to each other. */
import { readFileSync } from 'node:fs';
import {
  endpoints,
  entry,
  gateway,
  https,
  pod,
  policy,
  route,
  rule,
  secret,
  security,
  service,
  sidecar,
} from './random-mesh-texts.ts';

/** Endpoints that differ in every property by which clusters and proxies choose among them. */
const HERE = '{address: 10.0.3.1, locality: r1/z1, labels: {v: "1"}}';
const THERE = '{address: 10.0.3.2, locality: r2/z1, network: n2, labels: {v: "2"}}';

const [CERTIFICATE = '', KEY = ''] = ['tls.crt', 'tls.key'].map((name) =>
  readFileSync(new URL(`certs/${name}`, import.meta.url), 'utf8'),
);
/** Another certificate for the same key, with different bytes. */
const RENEWED = `${CERTIFICATE}# renewed\n`;

/** The URL of token keys, in a rule for which Envoy needs all its extensions. */
export const KEYS_URI = 'https://keys.test/';
const TOKEN_RULE = `{issuer: b, jwksUri: "${KEYS_URI}", audiences: [x], outputPayloadToHeader: x-b}`;

/** Each slot is one resource: absent, or in one of these forms. */
export const BASIC_SLOTS: readonly (readonly string[])[] = [
  [
    service('a', 'web', '10.96.0.1', [80, 81]),
    service('a', 'web', '10.96.0.1', [80]),
    service('a', 'web', 'None', [80]),
  ],
  [
    service('a', 'db', '10.96.0.2', [80], 'tcp'),
    service('a', 'db', '10.96.0.2', [3306], 'tcp'),
    service('a', 'db', 'None', [3306], 'tcp'),
  ],
  [
    service('b', 'api', '10.96.0.3', [80], 'grpc'),
    service('b', 'api', '10.96.0.3', [80, 90], 'any'),
    service('b', 'api', '10.96.0.3', [90], 'grpc'),
  ],
  [endpoints('a', 'web', ['10.0.0.1', '10.0.0.2'], [80, 81]), endpoints('a', 'web', ['10.0.0.2'], [80])],
  [endpoints('a', 'db', ['10.0.1.1', '10.0.1.2'], [3306], 'tcp'), endpoints('a', 'db', ['10.0.1.2'], [80], 'tcp')],
  [endpoints('b', 'api', ['10.0.2.1'], [80], 'grpc'), endpoints('b', 'api', ['10.0.2.1', '10.0.2.2'], [80], 'grpc')],
  [
    pod('a', 'web-1', '10.0.0.1', 'web'),
    pod('a', 'web-1', '10.0.0.1', 'other'),
    pod('a', 'web-1', '10.0.0.1', 'web', 'other'),
  ],
  [pod('a', 'db-1', '10.0.1.1', 'db'), pod('a', 'db-1', '10.0.1.2', 'db')],
  [pod('b', 'api-1', '10.0.2.1', 'api')],
  [
    pod('b', 'edge-1', '10.0.8.8', 'edge'),
    pod('b', 'edge-1', '10.0.8.8', 'other'),
    pod('b', 'edge-1', '10.0.8.8', 'edge', 'other'),
  ],
  [
    secret('cert', { 'tls.crt': CERTIFICATE, 'tls.key': KEY, 'ca.crt': CERTIFICATE }),
    secret('cert', { 'tls.crt': RENEWED, 'tls.key': KEY }),
    secret('cert', { password: 'x' }),
  ],
  [
    secret('cert-cacert', { cacert: CERTIFICATE }),
    secret('cert-cacert', { cacert: RENEWED }),
    secret('cert-cacert', {}),
  ],
  [policy('mesh-system', '{mtls: {mode: STRICT}}'), policy('mesh-system', '{mtls: {mode: DISABLE}}')],
  [
    policy('a', '{mtls: {mode: PERMISSIVE}}'),
    policy('a', '{selector: {matchLabels: {app: web}}, mtls: {mode: DISABLE}}'),
    policy('a', '{selector: {matchLabels: {app: web}}, portLevelMtls: {80: {mode: DISABLE}, 9999: {mode: STRICT}}}'),
  ],
  [
    policy('b', '{mtls: {mode: STRICT}}'),
    policy('b', '{selector: {matchLabels: {app: api}}, mtls: {mode: UNSET}, portLevelMtls: {80: {mode: PERMISSIVE}}}'),
  ],
  [
    security('RequestAuthentication', 'mesh-system', '{jwtRules: [{issuer: "https://a.test"}]}'),
    security('RequestAuthentication', 'mesh-system', `{jwtRules: [{issuer: b, jwksUri: "${KEYS_URI}"}]}`),
  ],
  [
    security('RequestAuthentication', 'a', `{selector: {matchLabels: {app: web}}, jwtRules: [${TOKEN_RULE}]}`),
    security('RequestAuthentication', 'a', '{jwtRules: [{issuer: c, fromHeaders: [{name: x-c}]}]}'),
  ],
  [
    security('RequestAuthentication', 'b', `{selector: {matchLabels: {app: edge}}, jwtRules: [${TOKEN_RULE}]}`),
    security('RequestAuthentication', 'b', '{jwtRules: []}'),
  ],
  [
    security('AuthorizationPolicy', 'a', '{action: DENY, rules: [{from: [{source: {notRequestPrincipals: ["*"]}}]}]}'),
    security('AuthorizationPolicy', 'a', '{selector: {matchLabels: {app: web}}, rules: [{}]}'),
    security('AuthorizationPolicy', 'a', '{rules: [{to: [{operation: {ports: ["80"], paths: ["/x*"]}}]}]}'),
    security('AuthorizationPolicy', 'a', '{action: CUSTOM, provider: {name: asked}, rules: [{}]}'),
  ],
  [
    security('AuthorizationPolicy', 'b', '{selector: {matchLabels: {app: edge}}}'),
    security('AuthorizationPolicy', 'b', '{action: CUSTOM, provider: {name: asked}, rules: [{}]}'),
    security('AuthorizationPolicy', 'b', '{action: AUDIT, rules: [{from: [{source: {namespaces: [a]}}]}]}'),
  ],
  [
    entry('names', 'DNS', '{hosts: [x.example.com], endpoints: [{address: one.example.com}]'),
    entry('names', 'DNS', '{hosts: [x.example.com, y.example.com], endpoints: [{address: two.example.com}]'),
    entry('names', 'DYNAMIC_DNS', "{hosts: ['*.example.com']"),
    entry('names', 'NONE', "{hosts: ['*.example.com'], exportTo: ['.']"),
    entry('names', 'STATIC', '{hosts: [x.example.com], addresses: [192.0.2.1], endpoints: [{address: 10.0.3.1}]'),
  ],
  [
    entry('static', 'STATIC', `{hosts: [s.example.com], endpoints: [${HERE}, ${THERE}]`),
    entry('static', 'STATIC', `{hosts: [s.example.com], endpoints: [${THERE}]`),
  ],
  [
    rule('a', 's', '{host: s.example.com, trafficPolicy: {outlierDetection: {consecutive5xxErrors: 3}}}'),
    rule(
      'a',
      's',
      '{host: s.example.com, trafficPolicy: {outlierDetection: {}, loadBalancer: {localityLbSetting: {failoverPriority: [v, app]}}}}',
    ),
    rule('a', 's', '{host: s.example.com, subsets: [{name: v, labels: {v: "1"}}]}'),
    rule('a', 's', '{host: s.example.com, subsets: [{name: v, labels: {v: "2"}}]}'),
  ],
  [
    rule('a', 'web', '{host: web, subsets: [{name: v1, labels: {v: "1"}}]}'),
    rule('a', 'web', '{host: web, trafficPolicy: {loadBalancer: {consistentHash: {httpHeaderName: x-user}}}}'),
    rule('a', 'web', '{host: web, trafficPolicy: {tls: {mode: SIMPLE}}}'),
    rule(
      'a',
      'web',
      '{host: web, workloadSelector: {matchLabels: {app: web}}, subsets: [{name: v1, labels: {v: "1"}}]}',
    ),
    rule('a', 'web', '{host: web, trafficPolicy: {portLevelSettings: [{port: {number: 81}, tls: {mode: DISABLE}}]}}'),
  ],
  [
    rule('a', 'db', '{host: db, trafficPolicy: {connectionPool: {tcp: {maxConnections: 3, idleTimeout: 5s}}}}'),
    rule('a', 'db', '{host: db, trafficPolicy: {loadBalancer: {consistentHash: {useSourceIp: true}}}}'),
    rule('a', 'db', '{host: db, trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}}'),
    rule(
      'a',
      'db',
      '{host: db, trafficPolicy: {tunnel: {targetHost: t.example.com, targetPort: 1}, proxyProtocol: {}}}',
    ),
  ],
  [
    rule(
      'a',
      'picked',
      '{host: "*.a.svc.cluster.local", workloadSelector: {matchLabels: {app: web}}, trafficPolicy: {loadBalancer: {consistentHash: {httpHeaderName: x-picked}}}}',
    ),
    rule(
      'a',
      'picked',
      '{host: web, workloadSelector: {matchLabels: {app: other}}, trafficPolicy: {tls: {mode: SIMPLE}}}',
    ),
    rule(
      'a',
      'picked',
      '{host: db, workloadSelector: {matchLabels: {app: web}}, trafficPolicy: {connectionPool: {tcp: {idleTimeout: 7s}}}}',
    ),
  ],
  [
    rule(
      'b',
      'picked',
      '{host: api, workloadSelector: {matchLabels: {app: edge}}, trafficPolicy: {tls: {mode: MUTUAL, credentialName: cert}}}',
    ),
    rule(
      'b',
      'picked',
      '{host: api, workloadSelector: {matchLabels: {app: edge}}, trafficPolicy: {loadBalancer: {simple: RANDOM}}}',
    ),
  ],
  [
    rule('b', 'api', '{host: api, trafficPolicy: {tls: {mode: MUTUAL, credentialName: cert}}}'),
    rule(
      'b',
      'api',
      '{host: api, trafficPolicy: {portLevelSettings: [{port: {number: 90}, tls: {mode: SIMPLE, credentialName: cert}}]}}',
    ),
    rule('b', 'api', '{host: api, exportTo: ["."], trafficPolicy: {loadBalancer: {simple: RANDOM}}}'),
    rule('b', 'api', '{host: api, trafficPolicy: {loadBalancer: {consistentHash: {httpQueryParameterName: user}}}}'),
    rule('b', 'api', '{host: api, trafficPolicy: {tls: {mode: MUTUAL, clientCertificate: /c, privateKey: /k}}}'),
  ],
  [
    route('b', 'part', '{http: [{match: [{uri: {prefix: /p}}], route: [{destination: {host: api}}]}]}'),
    route(
      'b',
      'part',
      '{http: [{route: [{destination: {host: db.a.svc.cluster.local}}], timeout: 1s}], exportTo: ["."]}',
    ),
    route(
      'b',
      'part',
      '{http: [{match: [{port: 81}, {uri: {exact: /x}}], route: [{destination: {host: web.a.svc.cluster.local}}]}]}',
    ),
    route('b', 'part', '{hosts: [part], http: [{route: [{destination: {host: api}}]}]}'),
  ],
  [
    route('a', 'root', '{hosts: [web], http: [{match: [{uri: {prefix: /p}}], delegate: {name: part, namespace: b}}]}'),
    route(
      'a',
      'root',
      '{hosts: [r.test], gateways: [mesh, b/edge], http: [{delegate: {name: part, namespace: b}, timeout: 2s}]}',
    ),
  ],
  [
    route(
      'b',
      'root',
      '{hosts: ["*"], gateways: [edge], http: [{delegate: {name: part}}, {route: [{destination: {host: api}}]}]}',
    ),
    route('b', 'root', '{hosts: [api], http: [{match: [{port: 80}], delegate: {name: part}}]}'),
  ],
  [
    route('a', 'web', '{hosts: [web], http: [{route: [{destination: {host: api.b.svc.cluster.local}}]}]}'),
    route('a', 'web', '{hosts: [web, other], http: [{route: [{destination: {host: web, subset: v1}}]}]}'),
    route(
      'a',
      'web',
      '{hosts: [web.a.svc.cluster.local], gateways: [b/edge, mesh], http: [{route: [{destination: {host: web}}]}]}',
    ),
  ],
  [
    route(
      'a',
      'db',
      '{hosts: [db], tcp: [{route: [{destination: {host: db}, weight: 50}, {destination: {host: web}, weight: 50}]}]}',
    ),
    route(
      'a',
      'db',
      '{hosts: [x.example.com], tls: [{match: [{port: 80, sniHosts: [x.example.com]}], route: [{destination: {host: db}}]}]}',
    ),
    route('a', 'db', "{hosts: ['*.example.com'], http: [{match: [{uri: {prefix: /x}}], redirect: {uri: /y}}]}"),
  ],
  [
    route('b', 'edge', "{hosts: ['*'], gateways: [edge], http: [{route: [{destination: {host: api}}]}]}"),
    route(
      'b',
      'edge',
      '{hosts: [e.example.com], gateways: [edge], http: [{route: [{destination: {host: web.a.svc.cluster.local}}]}]}',
    ),
    route('b', 'edge', '{hosts: [e.example.com], gateways: [edge], tcp: [{route: [{destination: {host: api}}]}]}'),
  ],
  // Resources that depend on the caller or that only some proxies see: views that share the rest must not share these.
  [
    route(
      'b',
      'api',
      '{hosts: [api], http: [{match: [{sourceNamespace: c}], redirect: {uri: /c}}, {route: [{destination: {host: api}}]}]}',
    ),
    route('b', 'api', '{hosts: [api], http: [{match: [{sourceLabels: {app: web}}], redirect: {uri: /web}}]}'),
    route(
      'b',
      'api',
      '{hosts: [api], exportTo: ["."], http: [{route: [{destination: {host: web.a.svc.cluster.local}}]}]}',
    ),
    route('b', 'api', '{hosts: [api], tcp: [{match: [{sourceNamespace: b}], route: [{destination: {host: api}}]}]}'),
  ],
  [
    rule(
      'c',
      'web',
      '{host: web.a.svc.cluster.local, trafficPolicy: {loadBalancer: {consistentHash: {useSourceIp: true}}}}',
    ),
    rule('c', 'web', '{host: "*.local", trafficPolicy: {tls: {mode: SIMPLE}}}'),
  ],
  [
    rule(
      'a',
      'seen',
      '{host: db, exportTo: [c], trafficPolicy: {loadBalancer: {consistentHash: {useSourceIp: true}}}}',
    ),
    rule(
      'a',
      'seen',
      '{host: web, exportTo: ["."], trafficPolicy: {loadBalancer: {consistentHash: {useSourceIp: true}}}}',
    ),
  ],
  [
    service('d', 'more', '10.96.0.4', [80, 3306], 'tcp'),
    service('d', 'more', '10.96.0.4', [80, 3306], 'any'),
    service('d', 'more', '10.96.0.1', [80], 'http'),
  ],
  [
    gateway("[{port: {number: 80, name: http, protocol: HTTP}, hosts: ['*']}]"),
    gateway(`[${https(443, 'SIMPLE', 'cert')}, ${https(8443, 'MUTUAL', 'cert')}, ${https(9443, 'SIMPLE', 'a/cert')}]`),
    gateway(`[${https(443, 'SIMPLE', 'cert')}]`),
    gateway(
      `[${https(443, 'MUTUAL', 'cert')}, {port: {number: 443, name: all, protocol: HTTPS}, hosts: ['*'], tls: {mode: SIMPLE, credentialName: cert}}]`,
    ),
    gateway(
      "[{port: {number: 80, name: http, protocol: HTTP}, hosts: [e.example.com]}, {port: {number: 9000, name: tcp, protocol: TCP}, hosts: ['*']}]",
    ),
    gateway(
      "[{port: {number: 15443, name: tls, protocol: TLS}, hosts: ['*.local', '*.com'], tls: {mode: AUTO_PASSTHROUGH}}]",
    ),
    gateway(
      "[{port: {number: 15443, name: tls, protocol: TLS}, hosts: ['a/*'], tls: {mode: AUTO_PASSTHROUGH}}, {port: {number: 80, name: http, protocol: HTTP}, hosts: ['*'], tls: {httpsRedirect: true}}]",
    ),
  ],
  [
    sidecar("{egress: [{hosts: ['./*']}]}"),
    sidecar(
      "{egress: [{port: {number: 0, protocol: HTTP, name: http}, bind: 'unix:///run/egress.sock', hosts: ['a/*']}]}",
    ),
    sidecar(
      "{egress: [{port: {number: 15080, protocol: HTTP_PROXY, name: proxy}, hosts: ['a/*', 'b/*']}, {hosts: ['./*']}]}",
    ),
    sidecar(
      "{egress: [{port: {number: 80, protocol: HTTP, name: http}, hosts: ['b/*']}, {hosts: ['*/*']}], outboundTrafficPolicy: {mode: REGISTRY_ONLY}}",
    ),
    sidecar(
      "{ingress: [{port: {number: 7070, protocol: HTTP, name: http}, defaultEndpoint: '127.0.0.1:70'}], egress: [{hosts: ['*/*']}]}",
    ),
  ],
];
