import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mesh, problemOf, read } from './testing/parsed.ts';

/** Each row: kind, a good spec, then bad ones with the field they are refused for. */
const SEMANTICS: readonly [kind: string, good: string, ...bad: (readonly [spec: string, field: string])[]][] = [
  [
    'VirtualService',
    '{hosts: ["*.example.com"], gateways: [ns/gw], http: [{route: [{destination: {host: a}, weight: 1}, {destination: {host: b}, weight: 3}]}]}',
    ['{hosts: [a]}', 'spec'],
    ['{http: [{route: [{destination: {host: a}}]}], gateways: [g]}', 'spec.gateways'],
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
    [
      '{host: a, trafficPolicy: {tunnel: {protocol: GET, targetHost: b.com, targetPort: 1}}}',
      'spec.trafficPolicy.tunnel.protocol',
    ],
    [
      '{host: a, trafficPolicy: {tunnel: {targetHost: "b.com:80", targetPort: 1}}}',
      'spec.trafficPolicy.tunnel.targetHost',
    ],
    [
      '{host: a, trafficPolicy: {loadBalancer: {localityLbSetting: {failoverPriority: ["=v"]}}}}',
      'spec.trafficPolicy.loadBalancer.localityLbSetting.failoverPriority[0]',
    ],
    ['{host: a, workloadSelector: {labels: {app: a}}}', 'spec.workloadSelector.labels'],
    ['{host: a, workloadSelector: {matchLabels: null}}', 'spec.workloadSelector.matchLabels'],
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
    [
      '{hosts: [a.com], resolution: STATIC, workloadSelector: {labels: {app: null}}}',
      'spec.workloadSelector.labels.app',
    ],
    ['{hosts: ["*.a.com"], resolution: DNS}', 'spec.hosts[0]'],
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
    'WorkloadGroup',
    '{metadata: {labels: {app: web}}, template: {serviceAccount: web, ports: {http: 80}}, probe: {periodSeconds: 5, httpGet: {path: /, port: 80}}}',
    ['{}', 'spec.template'],
    ['{template: {address: 1.2.3.4}}', 'spec.template.address'],
    ['{template: {ports: {http: 0}}}', 'spec.template.ports.http'],
    ['{template: {locality: a//b}}', 'spec.template.locality'],
    ['{metadata: {labels: {app: "a b"}}, template: {}}', 'spec.metadata.labels.app'],
    ['{template: {}, probe: {}}', 'spec.probe'],
    ['{template: {}, probe: {tcpSocket: {port: 80}, exec: {command: [a]}}}', 'spec.probe'],
    ['{template: {}, probe: {httpGet: {port: 80, scheme: FTP}}}', 'spec.probe.httpGet.scheme'],
    ['{template: {}, probe: {grpc: {port: 70000}}}', 'spec.probe.grpc.port'],
    ['{template: {}, probe: {exec: {command: []}}}', 'spec.probe.exec.command'],
    ['{template: {}, probe: {timeoutSeconds: -1, tcpSocket: {port: 80}}}', 'spec.probe.timeoutSeconds'],
  ],
  [
    'Sidecar',
    '{egress: [{port: {number: 80, protocol: HTTP}, hosts: [./a]}, {hosts: ["*/*", ~ns/*, ~./a.com, "~*/b.com", "~/c.com", "~/*"]}]}',
    ['{}', 'spec'],
    ['{egress: [{hosts: [a]}]}', 'spec.egress[0].hosts[0]'],
    ['{workloadSelector: {matchLabels: {app: a}}, egress: [{hosts: ["*/*"]}]}', 'spec.workloadSelector.matchLabels'],
    ['{egress: [{hosts: ["~~ns/*"]}]}', 'spec.egress[0].hosts[0]'],
    ['{egress: [{hosts: ["/*"]}]}', 'spec.egress[0].hosts[0]'],
    ['{egress: [{hosts: ["~ns"]}]}', 'spec.egress[0].hosts[0]'],
    ['{egress: [{hosts: ["~ns/a b"]}]}', 'spec.egress[0].hosts[0]'],
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
  [
    'Telemetry',
    `{metrics: [{overrides: [{match: {metric: ALL_METRICS}, tagOverrides: {a: {value: "request.host == '('"}, b: {operation: REMOVE}}}]}]}`,
    [metricTags('{a: {}}'), 'spec.metrics[0].overrides[0].tagOverrides.a.value'],
    [metricTags('{a: {value: a +}}'), 'spec.metrics[0].overrides[0].tagOverrides.a.value'],
    [metricTags('{a: {value: "string(x)"}}'), 'spec.metrics[0].overrides[0].tagOverrides.a.value'],
    [metricTags('{a: {value: "a)%, %REQ(x)% (b"}}'), 'spec.metrics[0].overrides[0].tagOverrides.a.value'],
    [metricTags('{a: {value: "a\\n"}}'), 'spec.metrics[0].overrides[0].tagOverrides.a.value'],
    [`{metrics: [${[256, 256, 1].map(tagOverrides).join()}]}`, 'spec.metrics'],
    [metricTags('{a-b: {value: a}}'), 'spec.metrics[0].overrides[0].tagOverrides.a-b'],
    ['{metrics: [{overrides: [{match: {metric: REQUESTS}}]}]}', 'spec.metrics[0].overrides[0].match.metric'],
    [
      '{metrics: [{overrides: [{match: {metric: REQUEST_SIZE, customMetric: a}}]}]}',
      'spec.metrics[0].overrides[0].match.customMetric',
    ],
  ],
];

function securityApi(kind: string): string | undefined {
  return /Authentication|Authorization/.test(kind) ? 'security.mesh.io/v1beta1' : undefined;
}

function metricTags(tags: string): string {
  return `{metrics: [{overrides: [{tagOverrides: ${tags}}]}]}`;
}

/** An entry of metrics with so many tags in overrides of 16. */
function tagOverrides(count: number): string {
  const names = Array.from({ length: count }, (_, index) => `t${index}: {value: a}`);
  const overrides = Array.from({ length: Math.ceil(count / 16) }, (_, index) =>
    names.slice(index * 16, index * 16 + 16),
  );
  return `{overrides: [${overrides.map((tags) => `{tagOverrides: {${tags.join()}}}`).join()}]}`;
}

for (const [kind, good, ...bad] of SEMANTICS) {
  const api = kind === 'Telemetry' ? 'telemetry.mesh.io/v1' : securityApi(kind);
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
