/**
 * A small mesh whose resources come, go and change at random and speak of each other: services, endpoints, entries, rules, routes,
 * a gateway, a Sidecar, networks; and proxies of different localities and networks that see different parts of it. For property
 * tests.
 */
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { parse } from 'yaml';
import type { ProxyNode } from '../../src/core/proxy.ts';
import { OIDC_REFERENCE } from '../../src/resources/key-sets.ts';
import { makeKeySet } from '../../src/resources/make-key-set.ts';
import {
  type MeshConfig,
  type MeshNetworks,
  parseMeshConfig,
  parseMeshNetworks,
} from '../../src/resources/mesh-config.ts';
import { type AnyResource, keyOf, type ResourceChange, type ResourceKey } from '../../src/resources/types.ts';
import { proxyNode, readResources } from './input.ts';

/** Endpoints that differ in all by which clusters and proxies choose among them. */
const HERE = '{address: 10.0.3.1, locality: r1/z1, labels: {v: "1"}}';
const THERE = '{address: 10.0.3.2, locality: r2/z1, network: n2, labels: {v: "2"}}';

const [CERTIFICATE = '', KEY = ''] = ['tls.crt', 'tls.key'].map((name) =>
  readFileSync(new URL(`certs/${name}`, import.meta.url), 'utf8'),
);
/** Another certificate for the same key, as far as bytes go. */
const RENEWED = `${CERTIFICATE}# renewed\n`;

/** Where keys of tokens are fetched from, by a rule that Envoy needs all its extensions for. */
const KEYS_URI = 'https://keys.test/';
const TOKEN_RULE = `{issuer: b, jwksUri: "${KEYS_URI}", audiences: [x], outputPayloadToHeader: x-b}`;

/** Each slot is one resource, absent or in one of these forms. */
const SLOTS: readonly (readonly string[])[] = [
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
  [pod('a', 'web-1', '10.0.0.1', 'web'), pod('a', 'web-1', '10.0.0.1', 'other')],
  [pod('a', 'db-1', '10.0.1.1', 'db'), pod('a', 'db-1', '10.0.1.2', 'db')],
  [pod('b', 'api-1', '10.0.2.1', 'api')],
  [pod('b', 'edge-1', '10.0.8.8', 'edge'), pod('b', 'edge-1', '10.0.8.8', 'other')],
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
    entry('names', 'NONE', "{hosts: ['*.example.com'], exportTo: ['.']"),
    entry('names', 'STATIC', '{hosts: [x.example.com], addresses: [192.0.2.1], endpoints: [{address: 10.0.3.1}]'),
  ],
  [
    entry('static', 'STATIC', `{hosts: [s.example.com], endpoints: [${HERE}, ${THERE}]`),
    entry('static', 'STATIC', `{hosts: [s.example.com], endpoints: [${THERE}]`),
  ],
  [
    rule('a', 's', '{host: s.example.com, trafficPolicy: {outlierDetection: {consecutive5xxErrors: 3}}}'),
    rule('a', 's', '{host: s.example.com, subsets: [{name: v, labels: {v: "1"}}]}'),
    rule('a', 's', '{host: s.example.com, subsets: [{name: v, labels: {v: "2"}}]}'),
  ],
  [
    rule('a', 'web', '{host: web, subsets: [{name: v1, labels: {v: "1"}}]}'),
    rule('a', 'web', '{host: web, trafficPolicy: {loadBalancer: {consistentHash: {httpHeaderName: x-user}}}}'),
    rule('a', 'web', '{host: web, trafficPolicy: {tls: {mode: SIMPLE}}}'),
    rule('a', 'web', '{host: web, trafficPolicy: {portLevelSettings: [{port: {number: 81}, tls: {mode: DISABLE}}]}}'),
  ],
  [
    rule('a', 'db', '{host: db, trafficPolicy: {connectionPool: {tcp: {maxConnections: 3, idleTimeout: 5s}}}}'),
    rule('a', 'db', '{host: db, trafficPolicy: {loadBalancer: {consistentHash: {useSourceIp: true}}}}'),
    rule('a', 'db', '{host: db, trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}}'),
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
  // What depends on who asks, and what only some see: views that share the rest must not share this.
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
      "{egress: [{port: {number: 80, protocol: HTTP, name: http}, hosts: ['b/*']}, {hosts: ['*/*']}], outboundTrafficPolicy: {mode: REGISTRY_ONLY}}",
    ),
    sidecar(
      "{ingress: [{port: {number: 7070, protocol: HTTP, name: http}, defaultEndpoint: '127.0.0.1:70'}], egress: [{hosts: ['*/*']}]}",
    ),
  ],
];

const FORMS: readonly (readonly AnyResource[])[] = [
  ...SLOTS.map((forms) =>
    readResources(
      'random-mesh.ts',
      forms.map((form) => parse(form) as unknown),
    ),
  ),
  // What is fetched comes and goes apart from the policies that ask for it.
  [makeKeySet(KEYS_URI, '{"keys":["first"]}'), makeKeySet(KEYS_URI, '{"keys":["second"]}')],
  [makeKeySet(`${OIDC_REFERENCE}https://a.test`, '{"keys":[]}')],
];

/** A service with two forms of ports, one of which the authorizer has, is the one that policies ask. */
export const MESH: MeshConfig = meshConfig({
  extensionProviders: [{ name: 'asked', envoyExtAuthzGrpc: { service: 'api.b.svc.cluster.local', port: 90 } }],
});

function meshConfig(raw: unknown): MeshConfig {
  const parsed = parseMeshConfig(raw);
  if ('problem' in parsed) throw new Error(parsed.problem.message);
  return parsed.value;
}

export const NODES: readonly ProxyNode[] = [
  proxyNode('web', {
    type: 'sidecar',
    address: '10.0.0.1',
    namespace: 'a',
    labels: { app: 'web' },
    network: 'n2',
    locality: 'r1/z1',
    sds: true,
  }),
  proxyNode('client', { type: 'sidecar', address: '10.0.9.9', namespace: 'c', locality: 'r1/z1' }),
  proxyNode('discovering', { address: '10.0.9.7', namespace: 'a', locality: 'r1/z1', discoversVirtualHosts: true }),
  proxyNode('other-discovering', { address: '10.0.9.6', namespace: 'd', discoversVirtualHosts: true }),
  proxyNode('secure', { type: 'sidecar', address: '10.0.9.8', namespace: 'c', locality: 'r2/z1', sds: true }),
  proxyNode('unredirected', {
    type: 'sidecar',
    address: '10.0.2.1',
    namespace: 'b',
    locality: 'r1/z1',
    interception: 'NONE',
    sds: true,
  }),
  proxyNode('edge', {
    type: 'router',
    address: '10.0.8.8',
    namespace: 'b',
    labels: { app: 'edge' },
    sds: true,
    account: 'edge',
  }),
  // Says that it is the same gateway, and runs as somebody else.
  proxyNode('not-edge', {
    type: 'router',
    address: '10.0.8.9',
    namespace: 'b',
    labels: { app: 'edge' },
    account: 'api',
  }),
];

/** Networks that a mesh may have; the first are those that it begins with. */
export const NETWORKS: readonly MeshNetworks[] = [
  undefined,
  { n2: { endpoints: [{ fromCidr: '10.0.1.0/24' }], gateways: [{ address: '192.0.2.98', port: 15443 }] } },
  { n2: { endpoints: [{ fromCidr: '10.0.2.0/24' }], gateways: [{ address: '192.0.2.99', port: 15443 }] } },
].map((networks) => {
  const parsed = parseMeshNetworks(networks && { networks });
  if ('problem' in parsed) throw new Error(parsed.problem.message);
  return parsed.value;
});

/** A resource as it becomes: undefined for gone. */
export interface Edit {
  readonly slot: number;
  readonly form: number | undefined;
}

const SLOT = fc.nat(FORMS.length - 1);
const FORM = fc.option(fc.nat(11), { nil: undefined, freq: 4 });

/** Most is there at first, because changes show where resources speak of each other. */
export const FIRST: fc.Arbitrary<readonly Edit[]> = fc.tuple(
  ...FORMS.map((_, index) => fc.record({ slot: fc.constant(index), form: FORM })),
);
export const STEP: fc.Arbitrary<readonly Edit[]> = fc.array(fc.record({ slot: SLOT, form: FORM }), {
  minLength: 1,
  maxLength: 2,
});

/** Resource changes of one step, each resource once; what is there already changes nothing. */
export function merged(changes: readonly Edit[], resources: Map<ResourceKey, AnyResource>): ResourceChange[] {
  const result = new Map<ResourceKey, ResourceChange>();
  for (const { slot, form } of changes) {
    const forms = FORMS[slot] ?? [];
    const first = forms[0];
    if (first === undefined) continue;
    const key = keyOf(first);
    const after = form === undefined ? undefined : forms[form % forms.length];
    const before = result.has(key) ? result.get(key)?.before : resources.get(key);
    if (after === undefined) resources.delete(key);
    else resources.set(key, after);
    if (before?.fingerprint === after?.fingerprint) result.delete(key);
    else result.set(key, { key, before, after });
  }
  return [...result.values()];
}

function service(namespace: string, name: string, ip: string, ports: readonly number[], protocol = 'http'): string {
  const list = ports.map((port) => `{name: ${protocol}-${port}, port: ${port}}`).join(', ');
  return `{apiVersion: v1, kind: Service, metadata: {name: ${name}, namespace: ${namespace}}, spec: {clusterIP: ${ip}, ports: [${list}]}}`;
}

function endpoints(
  namespace: string,
  name: string,
  ips: readonly string[],
  ports: readonly number[],
  protocol = 'http',
): string {
  const addresses = ips.map((ip) => `{ip: ${ip}}`).join(', ');
  const list = ports.map((port) => `{name: ${protocol}-${port}, port: ${port}}`).join(', ');
  return `{apiVersion: v1, kind: Endpoints, metadata: {name: ${name}, namespace: ${namespace}}, subsets: [{addresses: [${addresses}], ports: [${list}]}]}`;
}

function pod(namespace: string, name: string, ip: string, account: string): string {
  const labels = `{app: ${name.slice(0, -2)}, security.mesh.io/tlsMode: mesh}`;
  return `{apiVersion: v1, kind: Pod, metadata: {name: ${name}, namespace: ${namespace}, labels: ${labels}}, spec: {serviceAccountName: ${account}}, status: {phase: Running, podIP: ${ip}}}`;
}

function secret(name: string, entries: Readonly<Record<string, string>>): string {
  const stringData = JSON.stringify(entries);
  return `{apiVersion: v1, kind: Secret, metadata: {name: ${name}, namespace: b}, stringData: ${stringData}}`;
}

function https(port: number, mode: string, credential: string): string {
  return `{port: {number: ${port}, name: https-${port}, protocol: HTTPS}, hosts: [e.example.com], tls: {mode: ${mode}, credentialName: ${credential}}}`;
}

function security(kind: string, namespace: string, spec: string): string {
  return `{apiVersion: security.mesh.io/v1beta1, kind: ${kind}, metadata: {name: policy, namespace: ${namespace}}, spec: ${spec}}`;
}

function policy(namespace: string, spec: string): string {
  return security('PeerAuthentication', namespace, spec);
}

function mesh(kind: string, namespace: string, name: string, spec: string): string {
  return `{apiVersion: networking.mesh.io/v1alpha3, kind: ${kind}, metadata: {name: ${name}, namespace: ${namespace}}, spec: ${spec}}`;
}

function entry(name: string, resolution: string, rest: string): string {
  const ports = '[{number: 80, name: http, protocol: HTTP}, {number: 443, name: tls, protocol: TLS}]';
  return mesh(
    'ServiceEntry',
    'a',
    name,
    `${rest}, ports: ${ports}, location: MESH_EXTERNAL, resolution: ${resolution}}`,
  );
}

function rule(namespace: string, name: string, spec: string): string {
  return mesh('DestinationRule', namespace, name, spec);
}

function route(namespace: string, name: string, spec: string): string {
  return mesh('VirtualService', namespace, name, spec);
}

function gateway(servers: string): string {
  return mesh('Gateway', 'b', 'edge', `{selector: {app: edge}, servers: ${servers}}`);
}

function sidecar(spec: string): string {
  return mesh('Sidecar', 'c', 'default', spec);
}
