/**
 * The CustomResourceDefinitions of `deploy/crds` in a real API server: it accepts them, and accepts and refuses the
 * same objects as ctl-discovery.
 */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import { apiVersionsOf, parseResource } from '../../src/resources/index.ts';
import { MESH_KINDS, type MeshKind } from '../../src/resources/kinds/types.ts';
import { lazy, suiteOwner } from '../e2e/support/suite.ts';
import { eventually } from '../harness/index.ts';
import {
  ApiError,
  type ApiObject,
  applyDefinitions,
  type Kubernetes,
  kubernetesUnavailable,
  startKubernetes,
} from '../harness/kubernetes/index.ts';

const REPOSITORY = join(import.meta.dirname, '../..');
const skip = kubernetesUnavailable() ?? false;

const owner = suiteOwner();
const cluster = lazy<Kubernetes>();

before(async () => {
  if (skip !== false) return;
  cluster.set(await startKubernetes(owner));
  await applyDefinitions(cluster.get().api, { istio: true });
});

interface Condition {
  readonly type: string;
  readonly status: string;
  readonly message: string;
}

test('the API server serves every definition and finds no problem in its schema', { skip }, async () => {
  const { api } = cluster.get();
  await eventually(async () => {
    const { items } = await api.get<{ items: ApiObject[] }>('/apis/apiextensions.k8s.io/v1/customresourcedefinitions');
    assert.equal(items.length, 2 * MESH_KINDS.length);
    for (const { metadata, status } of items) {
      const { conditions = [] } = (status ?? {}) as { conditions?: readonly Condition[] };
      const states = Object.fromEntries(conditions.map(({ type, status: state }) => [type, state]));
      assert.equal(states.Established, 'True', metadata.name);
      assert.equal(states.NamesAccepted, 'True', metadata.name);
      assert.equal(states.NonStructuralSchema ?? 'False', 'False', metadata.name);
    }
  });
});

/** Documents of mesh kinds as users write them. */
function meshDocuments(pattern: string): { readonly where: string; readonly document: ApiObject }[] {
  return globSync(pattern, { cwd: REPOSITORY }).flatMap((file) =>
    parseAllDocuments(readFileSync(join(REPOSITORY, file), 'utf8'))
      .map((document) => document.toJS() as ApiObject | null)
      .filter((document) => document !== null)
      .filter(({ apiVersion = '' }) => /\.(mesh|istio)\.io\//.test(apiVersion))
      // Users cannot write derived documents: they do not come from an API server.
      .filter((document) => !('derived' in document))
      .map((document) => ({ where: `${file}: ${document.kind} ${document.metadata.name}`, document })),
  );
}

type Outcome = 'accepted' | 'refused' | 'ignored';

function ownOutcome(document: unknown): Outcome {
  const parsed = parseResource(document, { source: 'test' }, () => undefined);
  if ('resource' in parsed) return 'accepted';
  return 'problem' in parsed ? 'refused' : 'ignored';
}

for (const [what, pattern] of Object.entries({
  samples: 'samples/**/*.yaml',
  'inputs of golden tests': 'test/golden/*/in.yaml',
})) {
  test(`the API server accepts what ctl-discovery accepts of the ${what}`, { skip }, async () => {
    const { api } = cluster.get();
    const accepted = meshDocuments(pattern).filter(({ document }) => ownOutcome(document) === 'accepted');
    assert.ok(accepted.length > 0);
    const namespace = await cluster.get().newNamespace();
    const refused: string[] = [];
    for (const { where, document } of accepted) {
      const sent = { ...document, metadata: { ...document.metadata, namespace } };
      await api.apply([sent], { dryRun: true }).catch((error: Error) => refused.push(`${where}: ${error.message}`));
    }
    assert.deepEqual(refused, []);
  });
}

test('a header match without a value is stored unchanged', { skip }, async () => {
  const { api } = cluster.get();
  const headers = { 'x-any': null, 'x-empty': {}, 'x-exact': { exact: 'a' } };
  const document = {
    apiVersion: 'networking.mesh.io/v1alpha3',
    kind: 'VirtualService',
    metadata: { name: 'headers', namespace: await cluster.get().newNamespace() },
    spec: { hosts: ['a'], http: [{ match: [{ headers }], route: [{ destination: { host: 'a' } }] }] },
  };
  assert.equal(ownOutcome(document), 'accepted');
  const { metadata: _, ...collection } = document;
  const path = await api.path({ ...collection, metadata: { namespace: document.metadata.namespace } });
  const answer = await api.request({ method: 'POST', path, body: document });
  assert.equal(answer.status, 201, answer.body);
  assert.deepEqual((answer.json() as typeof document).spec, document.spec);
});

/** Invalid specs by kind: the mistake, and the text that the API server's message must contain. */
const WRONG: readonly (readonly [what: string, kind: MeshKind, spec: object, named: RegExp])[] = [
  ['a required field that is missing', 'DestinationRule', {}, /spec\.host: Required value/],
  ['a value of another type', 'DestinationRule', { host: ['reviews'] }, /\.spec\.host: expected string/],
  [
    'a value that is not of the enumeration',
    'PeerAuthentication',
    { mtls: { mode: 'STRIKT' } },
    /spec\.mtls\.mode: Unsupported value: "STRIKT"/,
  ],
  [
    'a duration without unit',
    'VirtualService',
    { hosts: ['a'], http: [{ timeout: '5', route: [{ destination: { host: 'a' } }] }] },
    /spec\.http\[0\]\.timeout: Invalid value: "5"/,
  ],
  ['a number out of range', 'WorkloadEntry', { address: '192.0.2.1', weight: -1 }, /spec\.weight: Invalid value: -1/],
  ['a field that no schema knows', 'WorkloadEntry', { address: '192.0.2.1', wait: 1 }, /\.spec\.wait: .*not declared/],
  [
    'two ways to compare a string',
    'VirtualService',
    {
      hosts: ['a'],
      http: [{ match: [{ uri: { exact: '/', prefix: '/' } }], route: [{ destination: { host: 'a' } }] }],
    },
    /spec\.http\[0\]\.match\[0\]\.uri: .*expected exactly one of exact, prefix, regex/,
  ],
  [
    'two actions of one route',
    'VirtualService',
    { hosts: ['a'], http: [{ redirect: { uri: '/' }, route: [{ destination: { host: 'a' } }] }] },
    /spec\.http\[0\]: .*expected only one of route, redirect, directResponse, delegate/,
  ],
  ['no route at all', 'VirtualService', { hosts: ['a'] }, /spec: .*expected at least one route under http, tls or tcp/],
  ['a policy that never matches', 'AuthorizationPolicy', { action: 'DENY' }, /spec: .*rules: required/],
  [
    'a condition without values',
    'AuthorizationPolicy',
    { rules: [{ when: [{ key: 'source.ip' }] }] },
    /spec\.rules\[0\]\.when\[0\]: .*expected values or notValues/,
  ],
  [
    'ports of no workload',
    'PeerAuthentication',
    { portLevelMtls: { 8080: { mode: 'STRICT' } } },
    /spec: .*portLevelMtls: requires a selector/,
  ],
  [
    'two sources of keys',
    'RequestAuthentication',
    { jwtRules: [{ issuer: 'a', jwks: '{"keys":[]}', jwksUri: 'https://a.example/keys' }] },
    /spec\.jwtRules\[0\]: .*expected either jwks or jwksUri/,
  ],
  [
    'TLS without its settings',
    'Gateway',
    { servers: [{ port: { number: 443, name: 'https', protocol: 'HTTPS' }, hosts: ['*'] }] },
    /spec\.servers\[0\]: .*tls: required/,
  ],
  [
    'endpoints that would not be used',
    'ServiceEntry',
    { hosts: ['a.example'], ports: [{ number: 80, name: 'http' }], endpoints: [{ address: '192.0.2.1' }] },
    /spec: .*endpoints: expected none with resolution NONE/,
  ],
  ['an empty spec', 'Sidecar', {}, /spec: .*expected at least one of ingress, egress, outboundTrafficPolicy/],
  ['nowhere to go', 'WorkloadEntry', {}, /spec: .*address: required/],
  [
    'a template that does not exist',
    'instance',
    { compiledTemplate: 'tracespan' },
    /spec\.compiledTemplate: Unsupported/,
  ],
  ['an address for all', 'WorkloadGroup', { template: { address: '192.0.2.1' } }, /template: .*address: expected none/],
  [
    'two balancers',
    'DestinationRule',
    { host: 'a', trafficPolicy: { loadBalancer: { simple: 'RANDOM', consistentHash: { useSourceIp: true } } } },
    /spec\.trafficPolicy\.loadBalancer: .*expected either simple or consistentHash/,
  ],
  [
    'a patch of nothing',
    'EnvoyFilter',
    { configPatches: [{ applyTo: 'CLUSTER', patch: { operation: 'ADD' } }] },
    /spec\.configPatches\[0\]\.patch: .*value: required/,
  ],
];

for (const [what, kind, spec, named] of WRONG) {
  test(`the API server refuses ${what} (${kind}) and names it`, { skip }, async () => {
    const [canonical = ''] = apiVersionsOf(kind);
    for (const domain of ['mesh.io', 'istio.io']) {
      const document = { apiVersion: canonical.replace('mesh.io', domain), kind, metadata: { name: 'wrong' }, spec };
      // Unknown fields are left out with a warning if nothing depends on them.
      if (what !== 'a field that no schema knows') assert.equal(ownOutcome(document), 'refused');
      const refused = (error: unknown) => error instanceof ApiError && named.test(error.message);
      await assert.rejects(cluster.get().api.apply([document], { dryRun: true }), refused);
    }
  });
}
