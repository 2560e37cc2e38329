import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ALL_KINDS } from '../../resources/index.ts';
import type { AdmissionRequest } from '../types.ts';
import { candidateOf, validateRequest } from './validate.ts';

const NETWORKING = 'networking.mesh.io/v1alpha3';

function document(spec: unknown, metadata: object = {}): Record<string, unknown> {
  return { apiVersion: NETWORKING, kind: 'VirtualService', metadata: { name: 'a', namespace: 'n', ...metadata }, spec };
}

function request(object: unknown, fields: Partial<AdmissionRequest> = {}): AdmissionRequest {
  return {
    uid: '1',
    operation: 'CREATE',
    kind: { group: 'networking.mesh.io', version: 'v1alpha3', kind: 'VirtualService' },
    namespace: 'n',
    name: 'a',
    subResource: '',
    dryRun: false,
    object,
    oldObject: undefined,
    ...fields,
  };
}

const destination = { destination: { host: 'a.b' } };
const good = { hosts: ['a.b'], http: [{ route: [destination] }] };
const bad = {
  hosts: ['a..b'],
  http: [{ route: [destination], timeout: 'soon', fault: { abort: { httpStatus: 42 } } }],
};

test('a valid document is admitted', () => {
  assert.deepEqual(validateRequest(request(document(good))), { allowed: true, outcome: 'valid' });
});

test('a dry run names routes that are never reached, and passes on the document', () => {
  const route = [destination];
  const prefix = (text: string) => ({ match: [{ uri: { prefix: text } }], route });
  const shadowed = { hosts: ['a.b'], http: [prefix('/a'), prefix('/a/b')] };
  const dryRun = request(document(shadowed), { dryRun: true });
  const message = 'spec.http[1]: route prefix /a/b is never reached: spec.http[0] (prefix /a) takes its requests';
  assert.deepEqual(validateRequest(dryRun), { allowed: true, outcome: 'valid', warnings: [message] });
  assert.equal(candidateOf(dryRun)?.meta.name, 'a');
  const catchAll = { hosts: ['a.b'], http: [{ route }, prefix('/b')] };
  assert.equal(validateRequest(request(document(catchAll), { dryRun: true })).warnings?.length, 1);
  const known = { ...dryRun, operation: 'UPDATE', oldObject: document(shadowed) } as const;
  assert.equal(validateRequest(known).warnings, undefined);
  for (const other of [{ dryRun: false }, { operation: 'DELETE' as const }, { subResource: 'status' }]) {
    assert.equal(validateRequest({ ...dryRun, ...other }).warnings, undefined);
    assert.equal(candidateOf({ ...dryRun, ...other }), undefined);
  }
  assert.equal(candidateOf(request(document(bad), { dryRun: true })), undefined);
});

test('the limits of documents are those of the settings', () => {
  const two = document({ ...good, hosts: ['a.b', 'c.d'] });
  assert.equal(validateRequest(request(two), { factor: 0.001 }).allowed, false);
  assert.equal(validateRequest(request(two), { factor: 0.002 }).allowed, true);
});

test('authors of delegates are told where these are off', () => {
  const root = document({ hosts: ['a.b'], http: [{ delegate: { name: 'part' } }] });
  const part = document({ http: [{ route: [destination] }] });
  for (const [spec, field] of [
    [root, 'spec.http[0].delegate'],
    [part, 'spec.hosts'],
  ] as const) {
    assert.equal(validateRequest(request(spec), { factor: 1, servesDelegates: true }).warnings, undefined);
    const { allowed, warnings } = validateRequest(request(spec), { factor: 1, servesDelegates: false });
    const message = 'the document is not applied while CTL_ENABLE_VIRTUAL_SERVICE_DELEGATE is false';
    assert.deepEqual([allowed, warnings], [true, [`${field}: ${message}`]]);
  }
});

test('a delegate has HTTP routes only, and does not delegate further', () => {
  const spec = { gateways: ['g'], http: [{ delegate: { name: 'next' } }], tcp: [{ route: [destination] }] };
  const message = validateRequest(request(document(spec))).refusal?.message ?? '';
  for (const field of ['spec.gateways', 'spec.tcp', 'spec.http[0].delegate'])
    assert.ok(message.includes(field), message);
});

test('all problems of a document are in one message, with their fields', () => {
  const several = { hosts: ['a..b', 'b..c'], http: [{ route: [destination], timeout: '-1s' }] };
  const { allowed, refusal, outcome } = validateRequest(request(document(several)));
  assert.equal(allowed, false);
  assert.equal(outcome, 'invalid');
  assert.equal(refusal?.code, 422);
  assert.match(
    refusal.message,
    /^VirtualService n\/a: spec\.hosts\[0\]: [^;]+; spec\.hosts\[1\]: .*spec\.http\[0\]\.timeout/,
  );
});

test('a document with thousands of problems gets a message of bounded length', () => {
  const hosts = Array.from({ length: 1_000 }, (_, index) => `${index}..x`);
  const { refusal } = validateRequest(request(document({ hosts, http: good.http })));
  assert.match(refusal?.message ?? '', /; and 9\d\d more$/);
  assert.ok((refusal?.message.length ?? 0) < 8_000);
});

test('fields that are legal but likely a mistake cause a warning', () => {
  const spec = { ...good, http: [...good.http, ...good.http], hostz: 1 };
  const { allowed, warnings } = validateRequest(request(document(spec)));
  assert.equal(allowed, true);
  assert.deepEqual(warnings, [
    'spec.hostz: unknown field',
    'spec.http[1]: never reached: http[0] matches every request',
  ]);
});

test('many and long warnings are cut as the API server would', () => {
  const spec = { ...good, ['x'.repeat(5_000)]: 1 };
  const many = Object.fromEntries(Array.from({ length: 40 }, (_, index) => [`x${index}`, 1]));
  const long = validateRequest(request(document(spec))).warnings ?? [];
  assert.deepEqual(
    long.map(({ length }) => length),
    [256],
  );
  const { warnings = [] } = validateRequest(request(document({ ...good, ...many })));
  assert.equal(warnings.length, 17);
  assert.equal(warnings.at(-1), '24 more warnings');
});

test('an object with problems that it had before can be changed, with a warning', () => {
  const fields = { operation: 'UPDATE', oldObject: document(bad) } as const;
  const labelled = validateRequest(request(document(bad, { labels: { team: 'a' } }), fields));
  assert.equal(labelled.allowed, true);
  assert.match(labelled.warnings?.[0] ?? '', /^not in force, as before this change: spec\./);
  const better = validateRequest(request(document({ ...bad, hosts: ['a.b'] }), fields));
  assert.equal(better.allowed, true);
});

test('a listener that would be closed is refused, and may stay as it is where it is stored', () => {
  const ingress = (tls: object) => [{ port: { number: 8443, name: 'https', protocol: 'HTTPS' }, tls }];
  const sidecar = (tls: object, labels = {}) => ({
    apiVersion: 'networking.mesh.io/v1alpha3',
    kind: 'Sidecar',
    metadata: { name: 'a', namespace: 'b', labels },
    spec: { ingress: ingress(tls) },
  });
  const files = { mode: 'SIMPLE', serverCertificate: '/c', privateKey: '/k' };
  assert.equal(validateRequest(request(sidecar(files))).allowed, true);
  const secret = { mode: 'SIMPLE', credentialName: 'c' };
  const { allowed, refusal } = validateRequest(request(sidecar(secret)));
  assert.equal(allowed, false);
  assert.match(refusal?.message ?? '', /spec\.ingress\[0\]\.tls\.credentialName: .*denied at port 8443$/);
  const fields = { operation: 'UPDATE', oldObject: sidecar(secret) } as const;
  const labelled = validateRequest(request(sidecar(secret, { team: 'a' }), fields));
  assert.match(labelled.warnings?.[0] ?? '', /^closed, as before this change: spec\.ingress/);
});

test('an object with problems cannot get another one', () => {
  const fields = { operation: 'UPDATE', oldObject: document(bad) } as const;
  const worse = validateRequest(request(document({ ...bad, gateways: 1 }), fields));
  assert.equal(worse.allowed, false);
});

test('a valid object cannot become invalid', () => {
  const { allowed } = validateRequest(request(document(bad), { operation: 'UPDATE', oldObject: document(good) }));
  assert.equal(allowed, false);
});

test('the last finalizer of an invalid object can be removed', () => {
  const object = document(bad, { deletionTimestamp: '2026-01-01T00:00:00Z' });
  assert.equal(validateRequest(request(object, { operation: 'UPDATE', oldObject: document(good) })).allowed, true);
});

test('deletion is never refused', () => {
  for (const oldObject of [document(bad), undefined, 'x'])
    assert.equal(validateRequest(request(undefined, { operation: 'DELETE', oldObject })).allowed, true);
});

test('a status is not checked', () => {
  const fields = { operation: 'UPDATE', subResource: 'status', oldObject: document(good) } as const;
  assert.equal(validateRequest(request(document(bad), fields)).allowed, true);
});

test('an object whose name is generated later is checked', () => {
  const unnamed = (spec: unknown) => ({
    apiVersion: NETWORKING,
    kind: 'VirtualService',
    metadata: { generateName: 'a-' },
    spec,
  });
  assert.deepEqual(validateRequest(request(unnamed(good), { name: '' })), { allowed: true, outcome: 'valid' });
  const { refusal } = validateRequest(request(unnamed(bad), { name: '' }));
  assert.match(refusal?.message ?? '', /^VirtualService n: spec\./);
});

test('documents of other kinds are admitted', () => {
  const deployment = { apiVersion: 'apps/v1', kind: 'Deployment', metadata: {}, spec: 1 };
  assert.equal(validateRequest(request(deployment)).allowed, true);
  const route = {
    apiVersion: 'gateway.networking.k8s.io/v1',
    kind: 'HTTPRoute',
    metadata: { name: 'a' },
    spec: { rules: 1 },
  };
  assert.equal(validateRequest(request(route)).allowed, true);
});

test('a document of the mesh that cannot be read is refused', () => {
  const hostile: readonly unknown[] = [
    undefined,
    null,
    1,
    [],
    'x',
    {},
    { apiVersion: NETWORKING, kind: 'VirtualServices', metadata: { name: 'a' }, spec: good },
    { apiVersion: NETWORKING, kind: 'VirtualService', metadata: 1, spec: good },
    { apiVersion: NETWORKING, kind: 'VirtualService', metadata: null, spec: good },
    document(JSON.parse('{"__proto__": {"hosts": ["a.b"]}}')),
    document(good, { name: '\u{1f600}' }),
    document({ ...good, hosts: { length: 1e9 } }),
  ];
  for (const object of hostile) {
    const { allowed, refusal } = validateRequest(request(object));
    assert.equal(allowed, false, JSON.stringify(object));
    assert.doesNotMatch(refusal?.message ?? '', /\n|undefined/);
  }
});

test('a document that is nested too deeply is refused', () => {
  let deep: unknown = 1;
  for (let depth = 0; depth < 100_000; depth++) deep = [deep];
  assert.equal(validateRequest(request(document({ ...good, http: deep }))).allowed, false);
});

test('no value that is secret is repeated in a message', () => {
  const key = '-----BEGIN RSA PRIVATE KEY-----';
  const spec = {
    hosts: ['a.b'],
    http: [{ route: [destination], headers: { request: { set: { authorization: 42, x: key } } } }],
  };
  const { refusal } = validateRequest(request(document(spec)));
  assert.doesNotMatch(refusal?.message ?? '', /42|PRIVATE/);
});

test('every kind has a decision', () => {
  for (const kind of ALL_KINDS) validateRequest(request({ apiVersion: 'v1', kind, metadata: { name: 'a' } }));
});
