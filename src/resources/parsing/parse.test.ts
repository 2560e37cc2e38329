import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parse as parseYaml } from 'yaml';
import { mesh, ORIGIN, problemOf, read } from '../testing/parsed.ts';
import { parseResource } from './parse.ts';

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
    ['v1', 'Servce', /unknown kind/],
    ['v2', 'Service', /expected apiVersion v1 for Service/],
    ['discovery.k8s.io/v2', 'EndpointSlice', /expected apiVersion discovery.k8s.io\/v1/],
    ['networkin.istio.io/v1', 'VirtualService', /expected apiVersion networking.mesh.io\/v1alpha3/],
    ['telemetry.istio.io/v1', 'Metering', /not supported/],
    ['install.mesh.io/v1', 'Operator', /not supported/],
    ['notistio.io/v1', 'Operator', undefined],
    ['extensions/v1beta1', 'Ingress', /expected apiVersion networking.k8s.io\/v1/],
    ['gateway.networking.k8s.io/v1', 'UDPRoute', /not supported/],
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
    assert.equal(message, 'expected well-formed Unicode: surrogates must be in pairs');
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
  assert.equal(read(entry(1000, 16)).kind, 'ServiceEntry');
  assert.equal(problemOf(entry(1000, 17)).message, 'expected at most 16384 hosts times ports, got 17000');
  const servers = list(4097, (port) => `{port: {number: ${port}, name: h${port}, protocol: HTTP}, hosts: ["*"]}`);
  assert.equal(problemOf(mesh('Gateway', `{selector: {a: b}, servers: [${servers}]}`)).field, 'spec.servers');
});

test('the label that sends requests to a waypoint has a warning', () => {
  const labelled = (kind: string, name: string) =>
    read(`apiVersion: v1\nkind: ${kind}\nmetadata: {name: a, labels: {istio.io/use-waypoint: ${name}}}\nspec: {}`)
      .warnings;
  const field = 'metadata.labels["istio.io/use-waypoint"]';
  const message = 'waypoint proxies are not supported: requests do not pass through one, and its policies do not apply';
  assert.deepEqual(labelled('Service', 'edge'), [{ field, message }]);
  assert.deepEqual(labelled('Namespace', 'edge'), [{ field, message }]);
  assert.equal(labelled('Service', 'none'), undefined);
  assert.equal(labelled('Pod', 'edge'), undefined);
});
