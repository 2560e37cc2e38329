import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parse as parseYaml } from 'yaml';
import { parseResource } from './parse.ts';
import type { AnyResource, ResourceProblem } from './types.ts';

const ORIGIN = { source: 'directory', file: 'a.yaml', line: 1 };

function read(yaml: string): AnyResource {
  const parsed = parseResource(parseYaml(yaml), ORIGIN, () => undefined);
  assert.ok('resource' in parsed, JSON.stringify(parsed));
  return parsed.resource;
}

function problemOf(yaml: string): ResourceProblem {
  const parsed = parseResource(parseYaml(yaml), ORIGIN, () => undefined);
  assert.ok('problem' in parsed, `expected a problem, got ${JSON.stringify(parsed)}`);
  return parsed.problem;
}

const mesh = (kind: string, spec: string, api = 'networking.mesh.io/v1alpha3') =>
  `apiVersion: ${api}\nkind: ${kind}\nmetadata: {name: x, namespace: ns}\nspec: ${spec}`;

test('existing Istio YAML loads: groups, MUTUAL names, labels and selectors', () => {
  const rule = read(
    mesh('DestinationRule', '{host: a, trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}}', 'networking.istio.io/v1beta1'),
  );
  assert.ok(rule.kind === 'DestinationRule');
  assert.equal(rule.content.trafficPolicy?.tls?.mode, 'MESH_MUTUAL');
  const gateway = read(
    mesh(
      'Gateway',
      '{selector: {istio: ingressgateway}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}]}',
      'networking.istio.io/v1',
    ),
  );
  assert.ok(gateway.kind === 'Gateway');
  assert.deepEqual(gateway.content.selector, { mesh: 'ingressgateway' });
  const pod = read(
    'apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {istio: ingressgateway, security.istio.io/tlsMode: istio}}\nspec: {}',
  );
  assert.deepEqual(pod.meta.labels, {
    istio: 'ingressgateway',
    mesh: 'ingressgateway',
    'security.istio.io/tlsMode': 'istio',
    'security.mesh.io/tlsMode': 'mesh',
  });
  assert.equal(pod.meta.namespace, 'default');
});

test('durations become milliseconds, deprecated fields their successors, absent fields stay absent', () => {
  const service = read(
    mesh(
      'VirtualService',
      `{hosts: [a], http: [{timeout: 1m0.5s, retries: {attempts: 2, perTryTimeout: 250ms}, mirrorPercent: 5,
        corsPolicy: {allowOrigin: ["*"]}, fault: {delay: {percent: 10, fixedDelay: 2s}},
        match: [{headers: {x-a: {}, x-b: {exact: b}, x-c: }}], route: [{destination: {host: b}}]}]}`,
    ),
  );
  assert.ok(service.kind === 'VirtualService');
  const route = service.content.http?.[0];
  assert.equal(route?.timeout, 60_500);
  assert.equal(route?.retries?.perTryTimeout, 250);
  assert.deepEqual(route?.mirrorPercentage, { value: 5 });
  assert.deepEqual(route?.corsPolicy?.allowOrigins, [{ regex: '.*' }]);
  assert.deepEqual(route?.fault?.delay?.percentage, { value: 10 });
  assert.deepEqual(route?.match?.[0]?.headers, {
    'x-a': { present: true },
    'x-b': { exact: 'b' },
    'x-c': { present: true },
  });
  assert.equal(route?.route?.[0]?.weight, undefined);
  assert.equal('exportTo' in service.content, false);
});

test('a problem names field and expectation, and counts the others', () => {
  const problem = problemOf(mesh('VirtualService', '{hosts: [a], http: [{timeot: 1s, route: [{destination: {}}]}]}'));
  assert.equal(problem.key, 'VirtualService/ns/x');
  assert.equal(problem.id, problem.key);
  assert.equal(problem.field, 'spec.http[0].timeot');
  assert.equal(problem.message, 'unknown field (and 1 more)');
  const wrong = problemOf(mesh('Gateway', '{servers: [{port: {number: "80"}, hosts: []}]}'));
  assert.equal(wrong.field, 'spec.servers[0].port.number');
  assert.match(wrong.message, /^expected a whole number, got "80"/);
});

test('a problem points at the line of the field, or of the object that lacks it', () => {
  const raw = parseYaml(mesh('ServiceEntry', '{hosts: [], ports: []}'));
  const parsed = parseResource(raw, ORIGIN, (path) => (path.join('.') === 'spec' ? 7 : undefined));
  assert.ok('problem' in parsed);
  assert.equal(parsed.problem.origin.line, 7);
});

test('documents without a name get a problem named by file and index', () => {
  for (const yaml of ['just text', '[1]', 'kind: Gateway', 'apiVersion: v1\nkind: Pod\nmetadata: {}']) {
    assert.equal(problemOf(yaml).id, 'a.yaml#0', yaml);
  }
  assert.match(problemOf(mesh('VirtualServce', '{}')).message, /unknown kind/);
  assert.match(
    problemOf(mesh('Gateway', '{}', 'networking.mesh.io/v9')).message,
    /expected networking.mesh.io\/v1alpha3/,
  );
});

test('kinds of other systems are ignored; cluster-scoped kinds have no namespace; unread fields are dropped', () => {
  const other = parseResource(parseYaml('apiVersion: apps/v1\nkind: Deployment'), ORIGIN, () => undefined);
  assert.ok('ignored' in other);
  assert.equal(read('apiVersion: v1\nkind: Namespace\nmetadata: {name: a, namespace: b}').meta.namespace, '');
  const service = read('apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {foo: 1, ports: [{port: 80}]}');
  assert.deepEqual(service.content, { spec: { ports: [{ port: 80, protocol: 'TCP' }] } });
});

test('a kind that is not read has a reason when it looks as if it were meant for the mesh', () => {
  const rows: readonly [apiVersion: string, kind: string, concern: RegExp | undefined][] = [
    ['apps/v1', 'Deployment', undefined],
    ['rbac.authorization.k8s.io/v1', 'Role', undefined],
    ['v1', 'PersistentVolumeClaim', undefined],
    ['serving.knative.dev/v1', 'Service', undefined],
    ['networking.k8s.io/v1', 'NetworkPolicy', undefined],
    ['v1', 'Servce', /no such kind/],
    ['v2', 'Service', /expected apiVersion v1 for Service/],
    ['discovery.k8s.io/v2', 'EndpointSlice', /expected apiVersion discovery.k8s.io\/v1/],
    ['networkin.istio.io/v1', 'VirtualService', /expected apiVersion networking.mesh.io\/v1alpha3/],
    ['telemetry.istio.io/v1', 'Telemetry', /not served/],
    ['install.mesh.io/v1', 'Operator', /not served/],
    ['notistio.io/v1', 'Operator', undefined],
    ['networking.k8s.io/v1', 'Ingress', /not served/],
    ['gateway.networking.k8s.io/v1', 'Gateway', /not served/],
  ];
  for (const [apiVersion, kind, concern] of rows) {
    const parsed = parseResource({ apiVersion, kind }, ORIGIN, () => undefined);
    assert.ok('ignored' in parsed, kind);
    const { what, origin, concern: found } = parsed.ignored;
    assert.deepEqual([what, origin], [`${apiVersion} ${kind}`, ORIGIN]);
    if (concern === undefined) assert.equal(found, undefined, what);
    else assert.match(found ?? '', concern, what);
  }
});

test('a kind of any length and with any characters is named in one short line', () => {
  const parsed = parseResource({ apiVersion: 'a/v1\n', kind: `\u001b${'x'.repeat(1e6)}` }, ORIGIN, () => undefined);
  assert.ok('ignored' in parsed);
  assert.match(parsed.ignored.what, /^a\/v1\? \?x{113}…$/);
});

test('the fingerprint depends on what generation reads and nothing else', () => {
  const base = 'apiVersion: v1\nkind: Endpoints\nmetadata: {name: a, labels: {b: c}}\nsubsets: []';
  const same = [
    'kind: Endpoints\nsubsets: []\napiVersion: v1\nmetadata: {labels: {b: c}, name: a, resourceVersion: "7", managedFields: [{}]}',
    base.replace('labels:', 'annotations: {endpoints.kubernetes.io/last-change-trigger-time: now}, labels:'),
  ];
  for (const yaml of same) assert.equal(read(yaml).fingerprint, read(base).fingerprint);
  const different = [
    base.replace('b: c', 'b: d'),
    base.replace('labels:', 'annotations: {networking.mesh.io/exportTo: "."}, labels:'),
    base.replace('labels:', 'creationTimestamp: 2020-01-01T00:00:00Z, labels:'),
    base.replace('[]', '[{addresses: [{ip: 1.2.3.4}]}]'),
  ];
  for (const yaml of different) assert.notEqual(read(yaml).fingerprint, read(base).fingerprint, yaml);
});

/** Each row: kind, a good spec, then bad ones with the field they are refused for. */
const SEMANTICS: readonly [kind: string, good: string, ...bad: (readonly [spec: string, field: string])[]][] = [
  [
    'VirtualService',
    '{hosts: ["*.example.com"], gateways: [ns/gw], http: [{route: [{destination: {host: a}, weight: 1}, {destination: {host: b}, weight: 3}]}]}',
    ['{hosts: [a]}', 'spec'],
    ['{http: [{route: [{destination: {host: a}}]}]}', 'spec.hosts'],
    ['{hosts: ["*"], http: [{route: [{destination: {host: a}}]}]}', 'spec.hosts[0]'],
    ['{hosts: [a b], http: [{route: [{destination: {host: a}}]}]}', 'spec.hosts[0]'],
    ['{hosts: [a, A], http: [{route: [{destination: {host: a}}]}]}', 'spec.hosts[1]'],
    ['{hosts: [a], http: [{}]}', 'spec.http[0]'],
    ['{hosts: [a], http: [{redirect: {uri: /}, route: [{destination: {host: a}}]}]}', 'spec.http[0].redirect'],
    ['{hosts: [a], http: [{route: [{destination: {host: a}}, {destination: {host: b}}]}]}', 'spec.http[0].route'],
    [
      '{hosts: [a], http: [{match: [{uri: {regex: "(?=a)"}}], route: [{destination: {host: a}}]}]}',
      'spec.http[0].match[0].uri.regex',
    ],
    ['{hosts: [a], http: [{timeout: 0.1ms, route: [{destination: {host: a}}]}]}', 'spec.http[0].timeout'],
    [
      '{hosts: [a], http: [{route: [{destination: {host: a, port: {number: 70000}}}]}]}',
      'spec.http[0].route[0].destination.port.number',
    ],
    [
      '{hosts: [a.com], tls: [{match: [{sniHosts: [b.com]}], route: [{destination: {host: a}}]}]}',
      'spec.tls[0].match[0].sniHosts[0]',
    ],
    [
      '{hosts: [a], tcp: [{match: [{destinationSubnets: [1.2.3.4/40]}], route: [{destination: {host: a}}]}]}',
      'spec.tcp[0].match[0].destinationSubnets[0]',
    ],
    ['{hosts: [a], exportTo: ["*", ns], http: [{route: [{destination: {host: a}}]}]}', 'spec.exportTo'],
  ],
  [
    'DestinationRule',
    '{host: a, subsets: [{name: v1, labels: {version: v1}}], trafficPolicy: {loadBalancer: {simple: LEAST_CONN}}}',
    ['{host: a, subsets: [{name: v1}, {name: v1}]}', 'spec.subsets[1].name'],
    ['{host: a, subsets: [{name: v1, labels: {version: "v 1"}}]}', 'spec.subsets[0].labels.version'],
    ['{host: a, trafficPolicy: {}}', 'spec.trafficPolicy'],
    ['{host: a, trafficPolicy: {loadBalancer: {warmup: {}}}}', 'spec.trafficPolicy.loadBalancer.warmup.duration'],
    [
      '{host: a, trafficPolicy: {loadBalancer: {warmup: {duration: 1s, aggression: -1}}}}',
      'spec.trafficPolicy.loadBalancer.warmup.aggression',
    ],
    ['{host: a, workloadSelector: {}}', 'spec.workloadSelector.matchLabels'],
    [
      '{host: a, trafficPolicy: {loadBalancer: {consistentHash: {}}}}',
      'spec.trafficPolicy.loadBalancer.consistentHash',
    ],
    [
      '{host: a, trafficPolicy: {loadBalancer: {consistentHash: {httpHeaderName: "a b"}}}}',
      'spec.trafficPolicy.loadBalancer.consistentHash.httpHeaderName',
    ],
    [
      '{host: a, trafficPolicy: {outlierDetection: {maxEjectionPercent: 101}}}',
      'spec.trafficPolicy.outlierDetection.maxEjectionPercent',
    ],
    [`{host: a, trafficPolicy: {tls: {mode: SIMPLE, sni: ${'a'.repeat(256)}}}}`, 'spec.trafficPolicy.tls.sni'],
    ['{host: a, trafficPolicy: {tls: {mode: MUTUAL}}}', 'spec.trafficPolicy.tls.clientCertificate'],
    [
      '{host: a, trafficPolicy: {portLevelSettings: [{port: {number: 0}}]}}',
      'spec.trafficPolicy.portLevelSettings[0].port.number',
    ],
  ],
  [
    'Gateway',
    '{servers: [{port: {number: 443, name: https, protocol: HTTPS}, hosts: [ns/a.com], tls: {mode: SIMPLE, credentialName: c}}]}',
    ['{servers: []}', 'spec.servers'],
    ['{servers: [{port: {number: 443, name: a, protocol: HTTPS}, hosts: ["*"]}]}', 'spec.servers[0].tls'],
    [
      '{servers: [{port: {number: 443, name: a, protocol: HTTPS}, hosts: ["*"], tls: {mode: SIMPLE}}]}',
      'spec.servers[0].tls.credentialName',
    ],
    ['{servers: [{port: {number: 80, name: a, protocol: HTTP}, hosts: []}]}', 'spec.servers[0].hosts'],
    ['{servers: [{port: {number: 80, name: a, protocol: FTP}, hosts: ["*"]}]}', 'spec.servers[0].port.protocol'],
    ['{servers: [{port: {number: 80, name: a, protocol: ""}, hosts: ["*"]}]}', 'spec.servers[0].port.protocol'],
    [
      '{servers: [{port: {number: 80, name: a, protocol: HTTP}, hosts: ["*"], bind: "unix:///run/"}]}',
      'spec.servers[0].bind',
    ],
  ],
  [
    'ServiceEntry',
    '{hosts: [a.com], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 1.2.3.4}]}',
    ['{hosts: ["*"]}', 'spec.hosts[0]'],
    ['{hosts: [a.com], ports: [{number: 80, name: a, protocol: FTP}]}', 'spec.ports[0].protocol'],
    ['{hosts: [a.com], resolution: STATIC, workloadSelector: {labels: {}}}', 'spec.workloadSelector.labels'],
    ['{hosts: ["*.a.com"], resolution: DNS}', 'spec.hosts[0]'],
    ['{hosts: [a.com], resolution: STATIC}', 'spec.endpoints'],
    ['{hosts: [a.com], resolution: STATIC, endpoints: [{address: b.com}]}', 'spec.endpoints[0].address'],
    ['{hosts: [a.com], endpoints: [{address: 1.2.3.4}]}', 'spec.endpoints'],
    ['{hosts: [a.com], resolution: DNS, addresses: [10.0.0.0/8]}', 'spec.addresses[0]'],
    ['{hosts: [a.com], ports: [{number: 80, name: a}, {number: 80, name: b}]}', 'spec.ports[1].number'],
  ],
  [
    'WorkloadEntry',
    '{address: 1.2.3.4, ports: {http: 80}}',
    ['{}', 'spec.address'],
    ['{address: 1.2.3}', 'spec.address'],
    ['{address: "unix:///run/"}', 'spec.address'],
    [`{address: "unix:///${'a'.repeat(107)}"}`, 'spec.address'],
  ],
  [
    'Sidecar',
    '{egress: [{port: {number: 80, protocol: HTTP}, hosts: [./a]}, {hosts: ["*/*"]}]}',
    ['{}', 'spec'],
    ['{egress: [{hosts: [a]}]}', 'spec.egress[0].hosts[0]'],
    ['{workloadSelector: {}, egress: [{hosts: ["*/*"]}]}', 'spec.workloadSelector.labels'],
    [
      '{egress: [{port: {number: 0, protocol: TCP}, bind: "unix:///run/", hosts: ["*/*"]}]}',
      'spec.egress[0].port.number',
    ],
    ['{egress: [{hosts: ["*/*"]}, {hosts: ["./*"]}]}', 'spec.egress[0].port'],
    ['{ingress: [{port: {number: 80}, defaultEndpoint: "1.2.3.4:80"}]}', 'spec.ingress[0].defaultEndpoint'],
  ],
  [
    'EnvoyFilter',
    '{configPatches: [{applyTo: CLUSTER, patch: {operation: MERGE, value: {}}}]}',
    ['{configPatches: [{applyTo: CLUSTER, patch: {operation: MERGE}}]}', 'spec.configPatches[0].patch.value'],
    [
      '{configPatches: [{applyTo: CLUSTER, match: {listener: {}}, patch: {operation: REMOVE}}]}',
      'spec.configPatches[0].match.listener',
    ],
  ],
  [
    'PeerAuthentication',
    '{selector: {matchLabels: {app: a}}, portLevelMtls: {80: {mode: STRICT}}}',
    ['{portLevelMtls: {80: {mode: STRICT}}}', 'spec.portLevelMtls'],
    ['{selector: {matchLabels: {app: a}}, portLevelMtls: {0: {mode: STRICT}}}', 'spec.portLevelMtls["0"]'],
  ],
  [
    'RequestAuthentication',
    '{jwtRules: [{issuer: a, jwksUri: "https://a.com/keys"}]}',
    ['{jwtRules: [{issuer: ""}]}', 'spec.jwtRules[0].issuer'],
    ['{jwtRules: [{issuer: a, spaceDelimitedClaims: [""]}]}', 'spec.jwtRules[0].spaceDelimitedClaims[0]'],
    ['{jwtRules: [{issuer: a, jwksUri: "file:///keys"}]}', 'spec.jwtRules[0].jwksUri'],
    [`{jwtRules: [{issuer: a, jwks: '{"keys":[{"kty":"RSA"}]}'}]}`, 'spec.jwtRules[0].jwks'],
    ['{jwtRules: [{issuer: a, fromHeaders: [{name: a, prefix: "a\\n"}]}]}', 'spec.jwtRules[0].fromHeaders[0].prefix'],
    ['{jwtRules: [{issuer: a, outputPayloadToHeader: ":path"}]}', 'spec.jwtRules[0].outputPayloadToHeader'],
    [
      '{jwtRules: [{issuer: a, outputClaimToHeaders: [{header: Host, claim: sub}]}]}',
      'spec.jwtRules[0].outputClaimToHeaders[0].header',
    ],
  ],
  [
    'AuthorizationPolicy',
    '{action: DENY, rules: [{from: [{source: {notRequestPrincipals: ["*"]}}]}]}',
    ['{action: DENY}', 'spec.rules'],
    ['{rules: [{from: [{source: {}}]}]}', 'spec.rules[0].from[0].source'],
    ['{rules: [{when: [{key: a.b, values: [c]}]}]}', 'spec.rules[0].when[0].key'],
    ['{rules: [{from: [{source: {ipBlocks: [a]}}]}]}', 'spec.rules[0].from[0].source.ipBlocks[0]'],
  ],
];

for (const [kind, good, ...bad] of SEMANTICS) {
  const api = /Authentication|Authorization/.test(kind) ? 'security.mesh.io/v1beta1' : undefined;
  test(`${kind}: which specs validation accepts and refuses`, () => {
    read(mesh(kind, good, api));
    for (const [spec, field] of bad) {
      const problem = problemOf(mesh(kind, spec, api));
      assert.equal(problem.field, field, `${spec}: ${problem.message}`);
    }
  });
}

test('an empty protocol of a port means detection, and hosts may end with the dot of a complete name', () => {
  const port = '{number: 80, name: web, protocol: ""}';
  for (const yaml of [
    mesh('ServiceEntry', `{hosts: [a.com.], ports: [${port}]}`),
    mesh('Sidecar', `{egress: [{port: ${port}, hosts: ["*/a.com."]}]}`),
    mesh('Sidecar', `{ingress: [{port: ${port}, defaultEndpoint: "127.0.0.1:1"}]}`),
    mesh(
      'VirtualService',
      '{hosts: [a.com.], tls: [{match: [{sniHosts: [a.com]}], route: [{destination: {host: b.com.}}]}]}',
    ),
    mesh('DestinationRule', '{host: "*.a.com."}'),
  ]) {
    read(yaml);
  }
  assert.match(
    problemOf(mesh('VirtualService', '{hosts: [a.com., A.com], http: [{route: [{destination: {host: b}}]}]}')).message,
    /overlaps/,
  );
});

test('a value that Envoy would refuse is refused in its own document', () => {
  const route = (fields: string) =>
    mesh('VirtualService', `{hosts: [a], http: [{${fields}, route: [{destination: {host: a}}]}]}`);
  const refused: readonly (readonly [fields: string, field: string])[] = [
    ['match: [{uri: {regex: ""}}]', 'match[0].uri.regex'],
    ['match: [{queryParams: {q: {regex: ""}}}]', 'match[0].queryParams.q.regex'],
    ['match: [{uri: {regex: "(a{90}){90}"}}]', 'match[0].uri.regex'],
    ['match: [{uri: {regex: "[\\\\x{4e00}-\\\\x{9fff}]"}}]', 'match[0].uri.regex'],
    ['headers: {request: {set: {x: "50%"}}}', 'headers.request.set.x'],
    ['headers: {request: {set: {x: "%REQ("}}}', 'headers.request.set.x'],
    ['headers: {request: {set: {x: "%req(a)%"}}}', 'headers.request.set.x'],
    ['headers: {response: {add: {x: "a\\nb"}}}', 'headers.response.add.x'],
    ['headers: {response: {add: {x: "a\\0b"}}}', 'headers.response.add.x'],
    [`headers: {request: {set: {x: "${'a'.repeat(16_385)}"}}}`, 'headers.request.set.x'],
    ['rewrite: {uri: "/a\\nb"}', 'rewrite.uri'],
    ['rewrite: {authority: "a\\rb"}', 'rewrite.authority'],
    ['rewrite: {uriRegexRewrite: {match: "", rewrite: a}}', 'rewrite.uriRegexRewrite.match'],
    ['timeout: 2562048h', 'timeout'],
    ['fault: {delay: {fixedDelay: 90000000h}}', 'fault.delay.fixedDelay'],
  ];
  for (const [fields, field] of refused) assert.equal(problemOf(route(fields)).field, `spec.http[0].${field}`, fields);
  const redirect = problemOf(mesh('VirtualService', '{hosts: [a], http: [{redirect: {uri: "/a\\nb"}}]}'));
  assert.equal(redirect.field, 'spec.http[0].redirect.uri');
  const values = ['100%%', '%REQ(x-id)%', '%START_TIME(%Y/%m/%d)%', '%REQ(a?b):10%-%PROTOCOL%', ''];
  for (const value of values) read(route(`headers: {request: {set: {x: "${value}"}}}`));
  read(route('timeout: 2562047h, match: [{uri: {regex: "/[a-z]{200}/(a|b|c){20}[\\\\x{e4}ä]\\\\\\\\x{2}"}}]'));
});

test('hostile documents are problems, not crashes', () => {
  const deep = `${'['.repeat(50)}1${']'.repeat(50)}`;
  const nasty = [
    mesh(
      'VirtualService',
      `{hosts: [a], http: [{match: [{uri: {regex: "${'a'.repeat(1025)}"}}], route: [{destination: {host: a}}]}]}`,
    ),
    mesh('VirtualService', `{hosts: ${deep}}`),
    mesh('Gateway', '{__proto__: {servers: []}, constructor: 1}'),
    mesh('ServiceEntry', '{hosts: [null]}'),
  ];
  for (const yaml of nasty) problemOf(yaml);
});

test('half of a surrogate pair is refused by its field, in every kind', () => {
  const policy = (spec: string) => mesh('AuthorizationPolicy', spec, 'security.mesh.io/v1beta1');
  for (const [yaml, field] of [
    [policy('{selector: {matchLabels: {app: "a\\ud800"}}}'), 'spec.selector.matchLabels.app'],
    [policy('{rules: [{to: [{operation: {paths: [/a, "/\\udc00b"]}}]}]}'), 'spec.rules[0].to[0].operation.paths[1]'],
    [mesh('VirtualService', '{hosts: [a], http: [{headers: {request: {set: {"x-\\ud83d": b}}}}]}'), 'headers.request'],
    ['apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: "\\udfff"}', 'data.a'],
    ['apiVersion: v1\nkind: Pod\nmetadata: {name: x, labels: {a: "\\ud800 "}}\nspec: {}', 'metadata.labels.a'],
  ] as const) {
    const { field: found, message, key } = problemOf(yaml);
    assert.equal(message, 'expected whole Unicode characters');
    assert.ok(found.includes(field), found);
    assert.ok(key);
  }
  assert.equal(read(policy('{selector: {matchLabels: {app: a}}}')).kind, 'AuthorizationPolicy');
  read('apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: "\\ud83d\\ude00"}');
});

test('documents with more ports than a proxy can have are refused', () => {
  const list = (length: number, entry: (n: number) => string): string =>
    Array.from({ length }, (_, n) => entry(n + 1)).join(',');
  const ports = (n: number): string => list(n, (port) => `{number: ${port}, name: http-${port}, protocol: HTTP}`);
  const service = (n: number): string =>
    `apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {ports: [${list(n, (port) => `{name: p${port}, port: ${port}}`)}]}`;
  assert.equal(read(service(4096)).kind, 'Service');
  assert.equal(problemOf(service(4097)).message, 'expected at most 4096 entries, got 4097');
  assert.equal(problemOf(service(4097)).field, 'spec.ports');
  const entry = (hosts: number, n: number): string =>
    mesh(
      'ServiceEntry',
      `{hosts: [${list(hosts, (host) => `h${host}.example`)}], resolution: DNS, ports: [${ports(n)}]}`,
    );
  assert.equal(problemOf(entry(1, 4097)).field, 'spec.ports');
  assert.equal(read(entry(1024, 16)).kind, 'ServiceEntry');
  assert.equal(problemOf(entry(1024, 17)).message, 'expected at most 16384 hosts times ports, got 17408');
  const servers = list(4097, (port) => `{port: {number: ${port}, name: h${port}, protocol: HTTP}, hosts: ["*"]}`);
  assert.equal(problemOf(mesh('Gateway', `{selector: {a: b}, servers: [${servers}]}`)).field, 'spec.servers');
});
