import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import { CtlError } from '../core/errors.ts';
import { decodeDocument } from '../protobuf/documents/index.ts';
import { istio } from '../protobuf/index.ts';
import { type AnyResource, documentLimits, parseResource, type ResourceProblem } from '../resources/index.ts';
import { EXCHANGED_KINDS, type ExchangedKind } from './kinds.ts';
import { encodeResource, readResource } from './resource.ts';

const { Resource } = istio.mcp.v1alpha1;
const LIMITS = documentLimits(1, true, 'mesh-system');
const GOLDEN = join(import.meta.dirname, '../../test/golden');

function exchanged(kind: string): ExchangedKind {
  const found = EXCHANGED_KINDS.find((each) => each.kind === kind);
  assert.ok(found);
  return found;
}

function parsed(raw: unknown): AnyResource | undefined {
  const result = parseResource(raw, { source: 'test' }, () => undefined, { limits: LIMITS });
  return 'resource' in result ? result.resource : undefined;
}

/** What no message can carry: a closed listener, two values of one oneof, and a field that only YAML has. */
const NOT_CARRIED = [
  'Sidecar: ingress[].tls.closed',
  'VirtualService: http[].fault.delay.exponentialDelay',
  'VirtualService: tls[].match[].sourceSubnet',
];

test('documents of all golden tests are the same after they were sent', () => {
  const counts = new Map<string, number>();
  const refused = new Set<string>();
  for (const name of readdirSync(GOLDEN)) {
    for (const document of parseAllDocuments(readFileSync(join(GOLDEN, name, 'in.yaml'), 'utf8'))) {
      const resource = parsed(document.toJS());
      const kind = EXCHANGED_KINDS.find((each) => each.kind === resource?.kind);
      if (resource === undefined || kind === undefined) continue;
      let sent: ReturnType<typeof encodeResource>;
      try {
        sent = encodeResource(kind, resource);
      } catch (error) {
        assert.ok(error instanceof CtlError);
        refused.add(`${resource.kind}: ${error.location.field?.replaceAll(/\d+/g, '')}`);
        continue;
      }
      const read = readResource(sent.bytes, sent, { kind, source: 'test', limits: LIMITS });
      assert.ok('resource' in read, `${name}: ${JSON.stringify(read)}`);
      // Protobuf does not distinguish values that are left out from defaults.
      const again = Resource.decode(encodeResource(kind, read.resource).bytes);
      const before = Resource.decode(sent.bytes);
      assert.deepEqual(again.body, before.body, `${name}: ${resource.kind}/${resource.meta.name}`);
      assert.deepEqual(read.resource.meta, resource.meta);
      counts.set(kind.kind, (counts.get(kind.kind) ?? 0) + 1);
    }
  }
  assert.deepEqual([...refused].sort(), NOT_CARRIED);
  const untested = EXCHANGED_KINDS.filter(({ kind }) => !counts.has(kind)).map(({ kind }) => kind);
  assert.deepEqual(untested, ['WorkloadGroup', 'ProxyConfig', 'attributemanifest', 'adapter', 'template']);
});

test('documents of kinds without a golden test are the same after they were sent', () => {
  const documents = {
    WorkloadGroup: {
      metadata: { labels: { app: 'db' }, annotations: { 'mesh.io/a': 'b' } },
      template: { serviceAccount: 'db', ports: { tcp: 5432 }, labels: { istio: 'a' } },
      probe: { periodSeconds: 3, httpGet: { path: '/ok', port: 8080, httpHeaders: [{ name: 'a', value: 'b' }] } },
    },
    ProxyConfig: { concurrency: 3, environmentVariables: { A: 'b' }, image: { imageType: 'distroless' } },
    attributemanifest: { attributes: { 'source.tier': { valueType: 'STRING', description: 'a' } } },
    adapter: { description: 'a', sessionBased: false, templates: ['tier'], config: 'Cg==' },
    template: { descriptor: 'Cg==' },
  };
  for (const [name, spec] of Object.entries(documents)) {
    const kind = exchanged(name);
    const apiVersion = kind.apis.at(-1);
    const resource = parsed({ apiVersion, kind: name, metadata: { name: 'a', namespace: 'shop' }, spec });
    assert.ok(resource);
    const sent = encodeResource(kind, resource);
    const read = readResource(sent.bytes, sent, { kind, source: 'test', limits: LIMITS });
    assert.ok('resource' in read, JSON.stringify(read));
    assert.equal(read.resource.fingerprint, resource.fingerprint);
  }
});

test('labels that select have the names of Istio on the way', () => {
  const kind = exchanged('Gateway');
  const servers = [{ port: { number: 80, name: 'http', protocol: 'HTTP' }, hosts: ['a.example.com'] }];
  const spec = { selector: { istio: 'ingress' }, servers };
  const resource = parsed({ apiVersion: kind.apis[0], kind: 'Gateway', metadata: { name: 'a', namespace: 'b' }, spec });
  assert.ok(resource);
  const { body } = Resource.decode(encodeResource(kind, resource).bytes);
  assert.deepEqual(decodeDocument(kind.message, body?.value ?? new Uint8Array()).json, spec);
});

/** The problem of a resource with this body. */
function problemOf(kind: ExchangedKind, name: string, body: { typeUrl: string; value: Uint8Array }): ResourceProblem {
  const head = { name, version: '1' };
  const bytes = Resource.encode({ metadata: head, body }).finish();
  const read = readResource(bytes, head, { kind, source: 'far', limits: LIMITS });
  assert.ok('problem' in read, JSON.stringify(read));
  return read.problem;
}

test('a policy with a field that is not known is refused, and the strictest that it can have meant replaces it', () => {
  const kind = exchanged('AuthorizationPolicy');
  const typeUrl = `type.googleapis.com/${kind.message}`;
  // rules: [{from: [{source: {field 99}}]}], of length 2, 2, 2 and 3.
  const value = Uint8Array.of(0x12, 8, 0x0a, 6, 0x0a, 4, 0x9a, 0x06, 1, 0x41);
  const problem = problemOf(kind, 'shop/a', { typeUrl, value });
  assert.equal(problem.key, 'AuthorizationPolicy/shop/a');
  assert.match(`${problem.field} ${problem.message}`, /rules\.from\.source: field 99.*unknown field/);
  assert.equal(problem.substitutes?.length, 1);
});

test('a body that cannot be read is a problem of its document', () => {
  const kind = exchanged('PeerAuthentication');
  const typeUrl = `type.googleapis.com/${kind.message}`;
  const broken = problemOf(kind, 'shop/a', { typeUrl, value: Uint8Array.of(0x0a, 0x7f) });
  assert.deepEqual([broken.key, broken.field], ['PeerAuthentication/shop/a', 'body']);
  assert.match(broken.message, /not a valid istio.security.v1beta1.PeerAuthentication/);
  assert.equal(broken.substitutes?.length, 1);
  const other = problemOf(kind, 'shop/a', {
    typeUrl: 'a.b/istio.networking.v1alpha3.Gateway',
    value: new Uint8Array(),
  });
  assert.match(other.message, /expected istio.security.v1beta1.PeerAuthentication, got "istio.networking/);
});

test('a name that is not of a namespace is a problem', () => {
  const kind = exchanged('VirtualService');
  const body = { typeUrl: `type.googleapis.com/${kind.message}`, value: new Uint8Array() };
  for (const name of ['', 'web', '/web', 'shop/', 'a/b/c', 'Shop/web']) {
    const { key, field, message } = problemOf(kind, name, body);
    assert.equal(key, undefined, name);
    assert.match(`${field}: ${message}`, /^metadata/, name);
  }
});

test('a policy whose reading fails with an internal error is refused, and is replaced by the strictest', () => {
  const kind = exchanged('AuthorizationPolicy');
  const policy = parsed({
    apiVersion: 'security.istio.io/v1',
    kind: 'AuthorizationPolicy',
    metadata: { name: 'p', namespace: 'ns' },
    spec: { action: 'ALLOW', rules: [{}] },
  });
  assert.ok(policy);
  const limits = new Proxy(LIMITS, {
    get: () => {
      throw new Error('a bug');
    },
  });
  const encoded = encodeResource(kind, policy);
  const read = readResource(encoded.bytes, encoded, { kind, source: 'far', limits });
  assert.ok('problem' in read);
  assert.equal(read.problem.key, 'AuthorizationPolicy/ns/p');
  assert.equal(read.problem.message, 'expected a readable document: a bug');
  assert.deepEqual(
    read.problem.substitutes?.map(({ content }) => content),
    [{ action: 'DENY', rules: [{}] }],
  );
});
