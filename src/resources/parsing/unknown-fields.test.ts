import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parse as parseYaml } from 'yaml';
import { type ParsedResource, parseResource } from './parse.ts';

const ORIGIN = { source: 'directory', file: 'a.yaml', line: 1 };

function parsed(kind: string, spec: string, more = ''): ParsedResource {
  const group = /Auth/.test(kind) ? 'security.mesh.io/v1beta1' : 'networking.mesh.io/v1alpha3';
  const yaml = `apiVersion: ${group}\nkind: ${kind}\nmetadata: {name: x, namespace: ns}\nspec: ${spec}\n${more}`;
  return parseResource(parseYaml(yaml), ORIGIN, (path) => (path.length === 1 ? 4 : undefined));
}

const ROUTE = 'route: [{destination: {host: b}}]';
const SERVER = 'port: {number: 443, name: https, protocol: HTTPS}, hosts: ["*"]';

/** kind, spec, the unknown fields that are left out */
const LEFT_OUT: readonly (readonly [kind: string, spec: string, ...fields: string[]])[] = [
  ['VirtualService', `{hosts: [a], http: [{timeot: 1s, ${ROUTE}}]}`, 'spec.http[0].timeot'],
  [
    'VirtualService',
    `{hosts: [a], soon: 1, http: [{retries: {attempts: 1, more: {}}, ${ROUTE}}]}`,
    'spec.soon',
    'spec.http[0].retries.more',
  ],
  ['VirtualService', `{hosts: [a], http: [{websocketUpgrade: true, ${ROUTE}}]}`, 'spec.http[0].websocketUpgrade'],
  // Inside the input of a transformation, which validates it only once its type is right.
  [
    'VirtualService',
    `{hosts: [a], http: [{fault: {delay: {fixedDelay: 1s, x: 1}, y: 1}, ${ROUTE}}]}`,
    'spec.http[0].fault.y',
    'spec.http[0].fault.delay.x',
  ],
  [
    'DestinationRule',
    '{host: a, trafficPolicy: {tls: {mode: SIMPLE, subjectAltName: [b]}}}',
    'spec.trafficPolicy.tls.subjectAltName',
  ],
  ['DestinationRule', '{host: a, exportTo: ["."], exporTo: []}', 'spec.exporTo'],
  [
    'Gateway',
    `{selector: {app: gw}, servers: [{${SERVER}, maxConnections: 1, tls: {mode: PASSTHROUGH}}]}`,
    'spec.servers[0].maxConnections',
  ],
  ['Sidecar', '{egress: [{hosts: ["./*"], localhost: {}}]}', 'spec.egress[0].localhost'],
  ['ServiceEntry', '{hosts: [a.com], resolution: NONE, something: 1}', 'spec.something'],
];

for (const [kind, spec, ...fields] of LEFT_OUT) {
  test(`left out with a warning: ${kind} ${fields.join(', ')}`, () => {
    const result = parsed(kind, spec);
    assert.ok('resource' in result, JSON.stringify(result));
    const { warnings = [], content } = result.resource;
    assert.deepEqual(warnings.map(({ field }) => field).sort(), fields.toSorted());
    for (const { message, line } of warnings) assert.deepEqual([message, line], ['unknown field', 4]);
    // The result equals that of the document without the field.
    for (const field of fields)
      assert.doesNotMatch(JSON.stringify(content), new RegExp(`"${field.split('.').at(-1)}"`));
  });
}

test('fields outside of the spec are left out as well, unless the spec is missing', () => {
  const result = parsed('Sidecar', '{egress: [{hosts: ["./*"]}]}', 'extra: 1\n');
  assert.ok('resource' in result);
  assert.deepEqual(result.resource.warnings, [{ field: 'extra', message: 'unknown field', line: 4 }]);
  const document = { apiVersion: 'networking.mesh.io/v1alpha3', kind: 'Gateway', metadata: { name: 'x' }, spce: {} };
  const missing = parseResource(document, ORIGIN, () => undefined);
  assert.ok('problem' in missing);
  assert.equal(missing.problem.field, 'spce');
});

test('metadata: orchestrator fields are accepted, others warned about, a misspelt namespace is refused', () => {
  const of = (metadata: object) =>
    parseResource(
      { apiVersion: 'networking.mesh.io/v1alpha3', kind: 'ServiceEntry', metadata, spec: { hosts: ['a.com'] } },
      ORIGIN,
      () => undefined,
    );
  const plain = of({ name: 'x', uid: '1', resourceVersion: '2', managedFields: [] });
  assert.ok('resource' in plain && plain.resource.warnings === undefined);
  const extra = of({ name: 'x', anotations: {} });
  assert.deepEqual('resource' in extra && extra.resource.warnings?.map(({ field }) => field), ['metadata.anotations']);
  const elsewhere = of({ name: 'x', namespce: 'shop' });
  assert.ok('problem' in elsewhere);
  assert.equal(elsewhere.problem.field, 'metadata.namespce');
});

test('a document is the same with and without unknown fields, except for its warnings', () => {
  const [without, withField] = ['{hosts: [a.com]}', '{hosts: [a.com], more: 1}'].map((spec) =>
    parsed('ServiceEntry', spec),
  );
  assert.ok(without !== undefined && 'resource' in without && withField !== undefined && 'resource' in withField);
  assert.equal(without.resource.fingerprint, withField.resource.fingerprint);
  assert.equal(without.resource.warnings, undefined);
});

test('a document with hundreds of unknown fields has a bounded number of warnings', () => {
  const fields = Array.from({ length: 500 }, (_, index) => `f${index}: 1`).join(', ');
  const result = parsed('ServiceEntry', `{hosts: [a.com], ${fields}}`);
  assert.ok('resource' in result);
  assert.equal(result.resource.warnings?.length, 16);
});

/**
 * kind, spec, the field for which the document is refused: without it, the document would allow more than was written
 */
const REFUSED: readonly (readonly [kind: string, spec: string, field: string])[] = [
  ['AuthorizationPolicy', '{rules: [{frm: [{source: {namespaces: [a]}}]}]}', 'spec.rules[0].frm'],
  [
    'AuthorizationPolicy',
    '{action: DENY, rules: [{to: [{operation: {paths: [/a], notPathss: [/b]}}]}]}',
    'spec.rules[0].to[0].operation.notPathss',
  ],
  ['AuthorizationPolicy', '{acton: DENY, rules: [{}]}', 'spec.acton'],
  ['AuthorizationPolicy', '{selector: {matchLabel: {app: a}}, rules: [{}]}', 'spec.selector.matchLabel'],
  ['PeerAuthentication', '{mtl: {mode: STRICT}}', 'spec.mtl'],
  ['PeerAuthentication', '{mtls: {mod: STRICT}}', 'spec.mtls.mod'],
  ['RequestAuthentication', '{jwtRules: [{issuer: a, audience: [b]}]}', 'spec.jwtRules[0].audience'],
  [
    'VirtualService',
    `{hosts: [a], http: [{match: [{header: {a: {exact: b}}}], ${ROUTE}}]}`,
    'spec.http[0].match[0].header',
  ],
  [
    'VirtualService',
    `{hosts: [a], http: [{match: [{headers: {a: {exat: b}}}], ${ROUTE}}]}`,
    'spec.http[0].match[0].headers.a.exat',
  ],
  ['VirtualService', `{hosts: [a], exportto: ["."], http: [{${ROUTE}}]}`, 'spec.exportto'],
  ['VirtualService', `{hosts: [a], gateway: [b], http: [{${ROUTE}}]}`, 'spec.gateway'],
  ['ServiceEntry', '{hosts: [a.com], exporTo: ["."]}', 'spec.exporTo'],
  ['DestinationRule', '{host: a, export_to: ["."]}', 'spec.export_to'],
  ['DestinationRule', '{host: a, workloadSelecter: {matchLabels: {app: a}}}', 'spec.workloadSelecter'],
  ['Sidecar', '{workloadselector: {labels: {app: a}}, egress: [{hosts: ["./*"]}]}', 'spec.workloadselector'],
  [
    'Gateway',
    `{servers: [{${SERVER}, tls: {mode: MUTUAL, credentialName: c, subjectAltName: [b]}}]}`,
    'spec.servers[0].tls.subjectAltName',
  ],
  [
    'Gateway',
    '{servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"], bnid: 127.0.0.1}]}',
    'spec.servers[0].bnid',
  ],
  ['Gateway', `{selecter: {app: a}, servers: [{${SERVER}, tls: {mode: PASSTHROUGH}}]}`, 'spec.selecter'],
];

for (const [kind, spec, field] of REFUSED) {
  test(`refused, because it would allow more without the field: ${kind} ${field}`, () => {
    const result = parsed(kind, spec);
    assert.ok('problem' in result, JSON.stringify(result));
    assert.equal(result.problem.field, field);
    assert.match(result.problem.message, /^unknown field/);
  });
}

test('a field that restricts is refused without a value', () => {
  const rows: readonly (readonly [kind: string, spec: string, field: string | undefined])[] = [
    ['VirtualService', `{hosts: [a], http: [{match: [{headers: }], ${ROUTE}}]}`, 'spec.http[0].match[0].headers'],
    ['VirtualService', `{hosts: [a], http: [{match: , ${ROUTE}}]}`, 'spec.http[0].match'],
    ['VirtualService', `{hosts: [a], http: [{match: [{headers: {a: }}], timeout: , ${ROUTE}}]}`, undefined],
    [
      'Gateway',
      `{servers: [{${SERVER}, tls: {mode: MUTUAL, credentialName: c, subjectAltNames: }}]}`,
      'spec.servers[0].tls.subjectAltNames',
    ],
  ];
  for (const [kind, spec, field] of rows) {
    const result = parsed(kind, spec);
    assert.equal('problem' in result ? result.problem.field : undefined, field, spec);
    if ('problem' in result) assert.equal(result.problem.message, 'expected a value, got null');
  }
});

test('a setting that is checked and not acted on causes a warning, too', () => {
  const warningsOf = (kind: string, spec: string) => {
    const result = parsed(kind, spec);
    assert.ok('resource' in result, JSON.stringify(result));
    return result.resource.warnings?.map(({ field, message }) => `${field}: ${message}`);
  };
  assert.deepEqual(warningsOf('Sidecar', '{inboundConnectionPool: {http: {h2UpgradePolicy: UPGRADE}}}'), [
    'spec.inboundConnectionPool.http.h2UpgradePolicy: no effect: the application gets the protocol of its port',
  ]);
  assert.equal(warningsOf('DestinationRule', '{host: a}'), undefined);
});
