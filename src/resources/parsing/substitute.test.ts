import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parse as parseYaml } from 'yaml';
import type { Substitute } from '../kinds/types.ts';
import { mesh, problemOf } from '../testing/parsed.ts';
import { parseResource } from './parse.ts';
import { salvaged } from './salvage.ts';
import { substituteResource } from './substitute.ts';

const ORIGIN = { source: 'directory', file: 'a.yaml', line: 1 };

/** Substitutes for a document, as `kind namespace/name`, with their content. */
function substitutes(yaml: string): readonly Substitute[] | undefined {
  const parsed = parseResource(parseYaml(yaml), ORIGIN, () => undefined);
  assert.ok('problem' in parsed, JSON.stringify(parsed));
  return parsed.problem.substitutes;
}

function policy(kind: string, spec: string, metadata = '{name: x, namespace: ns}', api = 'security.istio.io/v1beta1') {
  return `apiVersion: ${api}\nkind: ${kind}\nmetadata: ${metadata}\nspec: ${spec}\n`;
}

function only(yaml: string): Substitute {
  const found = substitutes(yaml);
  assert.equal(found?.length, 1, JSON.stringify(found));
  return found[0] as Substitute;
}

test('a refused AuthorizationPolicy denies everything for the workloads that its selector covers', () => {
  for (const action of ['ALLOW', 'DENY', 'CUSTOM', 'DENNY']) {
    const found = only(
      policy('AuthorizationPolicy', `{action: ${action}, selector: {matchLabels: {app: a}}, rules: [{x: 1}]}`),
    );
    assert.deepEqual(found, {
      kind: 'AuthorizationPolicy',
      namespace: 'ns',
      name: 'x',
      content: { selector: { matchLabels: { app: 'a' } }, action: 'DENY', rules: [{}] },
      selectorKnown: true,
    });
  }
  assert.deepEqual(substitutes(policy('AuthorizationPolicy', '{action: AUDIT, rules: [{x: 1}]}')), []);
});

test('a refused PeerAuthentication is STRICT, on all ports', () => {
  const { content } = only(
    policy(
      'PeerAuthentication',
      '{mtls: {mode: STRIKT}, selector: {matchLabels: {app: a}}, portLevelMtls: {80: {mode: DISABLE}}}',
    ),
  );
  assert.deepEqual(content, { selector: { matchLabels: { app: 'a' } }, mtls: { mode: 'STRICT' } });
});

test('a refused RequestAuthentication accepts no token in its own token locations and the usual ones', () => {
  const rules = `[
    {issuer: a, jwksUri: ftp://x, fromHeaders: [{name: x-token}], outputClaimToHeaders: [{header: x-user, claim: sub}]},
    {issuer: b, fromCookies: [1], fromParams: [t], outputPayloadToHeader: ":path"}, 7]`;
  const issuer = 'refused-request-authentication';
  assert.deepEqual(only(policy('RequestAuthentication', `{jwtRules: ${rules}}`)).content, {
    jwtRules: [
      { fromHeaders: [{ name: 'x-token' }], outputClaimToHeaders: [{ header: 'x-user', claim: 'sub' }], issuer },
      { fromParams: ['t'], issuer },
      { issuer },
    ],
  });
  assert.deepEqual(only(policy('RequestAuthentication', '{jwtRules: none}')).content, { jwtRules: [{ issuer }] });
});

test('a selector that cannot be read covers the namespace, a namespace that cannot be read the mesh', () => {
  for (const spec of [
    '{selector: [], rules: []}',
    '{selector: {matchLabels: {app: 1}}}',
    '{selector: {matchLabel: {app: a}}}',
    '{selector: {matchLabels: {app: "a*"}}}',
    '{selecter: {matchLabels: {app: a}}}',
    'text',
  ]) {
    const { namespace, selectorKnown, content } = only(policy('PeerAuthentication', spec));
    assert.deepEqual([namespace, selectorKnown, content], ['ns', false, { mtls: { mode: 'STRICT' } }], spec);
  }
  for (const metadata of ['{name: x, namespace: [ns]}', '{name: x, namespace: "n s"}', 'text']) {
    const found = only(policy('PeerAuthentication', '{selector: {matchLabels: {app: a}}}', metadata));
    assert.deepEqual([found.namespace, found.name, found.selectorKnown], [undefined, undefined, false], metadata);
    const { meta } = substituteResource(found, { id: 'a.yaml#0', origin: ORIGIN, rootNamespace: 'root' });
    assert.deepEqual([meta.namespace, meta.substitute, meta.name.startsWith('~')], ['root', 'overrides', true]);
  }
});

test('a document with a readable name has its key, whatever other errors its metadata has', () => {
  const parsed = parseResource(
    parseYaml(policy('PeerAuthentication', '{}', '{name: x, namespace: ns, labels: {a: 1}}')),
    ORIGIN,
    () => undefined,
  );
  assert.ok('problem' in parsed);
  assert.equal(parsed.problem.key, 'PeerAuthentication/ns/x');
  const misspelt = only(policy('PeerAuthentication', '{}', '{name: x, namespce: shop}'));
  assert.deepEqual([misspelt.namespace, misspelt.name], ['shop', undefined]);
  assert.equal(only(policy('PeerAuthentication', '{}', '{name: x, ns: shop}')).namespace, 'shop');
});

test('a policy with an error in kind or version is recognized by what it resembles; others have no substitute', () => {
  const kinds = [
    policy('AuthorizationPolcy', '{}'),
    policy('AuthorizationPolicies', '{rules: [{}]}'),
    policy('AuthorizationPolicy', '{}', undefined, 'security.istio.io/v9'),
    policy('AuthorizationPolicy', '{}', undefined, 'networking.istio.io/v1beta1'),
    policy('AuthorizationPolicy', '{}', undefined, 'securty.istio.io/v1beta1'),
    policy('AuthorizationPolicy', '{}', undefined, 'rbac.istio.io/v1alpha1'),
    policy('AuthorizationPolicy', '{}', undefined, 'v1'),
    'kind: AuthorizationPolicy\nmetadata: {name: x, namespace: ns}\n',
  ];
  for (const yaml of kinds) assert.equal(only(yaml).kind, 'AuthorizationPolicy', yaml);
  assert.equal(only(policy('Policy', '{mtls: {}}')).kind, 'PeerAuthentication');
  assert.equal(substitutes(policy('VirtualService', '{}', undefined, 'networking.istio.io/v1')), undefined);
  assert.equal(substitutes(policy('VirtualServce', '{}', undefined, 'networking.istio.io/v1')), undefined);
  const other = parseResource(
    parseYaml(policy('AuthorizationPolicy', '{}', undefined, 'policy.linkerd.io/v1')),
    ORIGIN,
    () => undefined,
  );
  assert.ok('ignored' in other);
});

test('a field of a policy without its value is an error', () => {
  const specs = ['{rules: [{from: null}]}', '{rules: }', '{selector: {matchLabels: }, rules: [{}]}'];
  for (const spec of specs) assert.equal(only(policy('AuthorizationPolicy', spec)).kind, 'AuthorizationPolicy', spec);
  assert.equal(only(policy('PeerAuthentication', '{mtls: {mode: null}}')).kind, 'PeerAuthentication');
});

/** Text, and the documents that are found in it as `kind namespace/name`; undefined: no policy. */
const TEXTS: readonly (readonly [what: string, text: string, found: readonly string[] | undefined])[] = [
  [
    'a tab',
    'apiVersion: security.istio.io/v1beta1\nkind: PeerAuthentication\nmetadata:\n  name: x\n  namespace: shop\nspec:\n\tmtls: {}\n',
    ['PeerAuthentication shop/x'],
  ],
  [
    'the name of something else',
    'kind: AuthorizationPolicy\nmetadata:\n  namespace: shop\n\tnam: x\nspec:\n  provider: {name: y}\n',
    ['AuthorizationPolicy shop/?'],
  ],
  ['no namespace', 'kind: PeerAuthentication\nmetadata: {name: x}\nspec: [\n', ['PeerAuthentication default/x']],
  [
    'a broken namespace',
    'kind: PeerAuthentication\nmetadata:\n  name: x\n  namespace shop\nspec: [\n',
    ['PeerAuthentication ?/?'],
  ],
  [
    'JSON',
    '{"kind": "AuthorizationPolicy", "metadata": {"name": "x", "namespace": "shop"}, "spec": {',
    ['AuthorizationPolicy shop/x'],
  ],
  [
    'a list',
    'kind: List\nitems:\n- kind: PeerAuthentication\n  metadata: {namespace: a}\n- kind: PeerAuthentication\n  metadata: {namespace: b}\n- [',
    ['PeerAuthentication a/?', 'PeerAuthentication b/?'],
  ],
  ['no colon', 'kind AuthorizationPolicy\nmetadata: {name: x, namespace: a}\n', ['AuthorizationPolicy a/?']],
  ['an anchor', 'kind: &k !!str PeerAuthentication\nmetadata: {name: x}\nspec: [', ['PeerAuthentication default/x']],
  [
    'a misspelt kind as well',
    'apiVersion: security.istio.io/v1beta1\nkind: AuthorisationPolicy\nmetadata: {name: x}\nspec: [\n',
    ['AuthorizationPolicy default/x'],
  ],
  [
    'no kind',
    'apiVersion: security.istio.io/v1beta1\nknd: X\nmetadata: {name: x}\nspec:\n\tjwtRules: []\n',
    ['RequestAuthentication default/x'],
  ],
  ['AUDIT', 'kind: AuthorizationPolicy\nmetadata: {name: x}\nspec:\n\taction: AUDIT\n', []],
  ['another kind', 'kind: VirtualService\nmetadata: {name: x}\nspec: [\n', undefined],
  ['a comment', '# kind: PeerAuthentication\nkind: VirtualService\nspec: [\n', undefined],
  [
    'text of a policy in another document',
    'kind: ConfigMap\ndata:\n  a: |\n    kind: PeerAuthentication\n b: [\n',
    undefined,
  ],
];

for (const [what, text, expected] of TEXTS) {
  test(`policies in text that cannot be parsed: ${what}`, () => {
    const found = salvaged(text)?.map(({ kind, namespace = '?', name = '?' }) => `${kind} ${namespace}/${name}`);
    assert.deepEqual(found, expected);
  });
}

test('searching a large text without policies takes time linear in its length', () => {
  const text = `kind: PeerAuthentication\nmetadata:\n${'  metadata: name: x\n'.repeat(50_000)}`;
  assert.ok(salvaged(text));
});

test('beside targets a selector may have been meant as another one: the namespace is covered', () => {
  const target = '{group: gateway.networking.k8s.io, kind: Gateway, name: edge}';
  const parsed = problemOf(
    mesh(
      'AuthorizationPolicy',
      `{selector: {matchLabels: {app: a}}, targetRefs: [${target}]}`,
      'security.mesh.io/v1beta1',
    ),
  );
  assert.deepEqual(
    parsed.substitutes?.map(({ content, selectorKnown }) => ({ content, selectorKnown })),
    [{ content: { action: 'DENY', rules: [{}] }, selectorKnown: false }],
  );
});

const rule = (spec: string, metadata?: string) => policy('rule', spec, metadata, 'config.istio.io/v1alpha2');
const UNKNOWN = [{ handler: '~', instances: ['~'] }];

test('a refused rule refuses the requests to which it applies, as far as its condition can be read', () => {
  const actions = '[{handler: h, instances: [i]}]';
  const read = [{ handler: 'h', instances: ['i'] }];
  for (const [spec, content] of [
    // What only records goes on to do so, which compilation finds out.
    [`{match: 'a.b == ', actions: ${actions}}`, { actions: read }],
    [`{match: 'a == "b"', actions: [{handler: h}]}`, { match: 'a == "b"', actions: UNKNOWN }],
    [
      `{match: 'a == "b"', actions: ${actions}, requestHeaderOperations: [{nam: x}]}`,
      { match: 'a == "b"', actions: UNKNOWN },
    ],
    [`{mach: 'a == "b"', actions: ${actions}}`, { actions: UNKNOWN }],
    ['[]', { actions: UNKNOWN }],
  ] as const) {
    const found = only(rule(spec));
    assert.deepEqual([found.kind, found.namespace, found.name, found.content], ['rule', 'ns', 'x', content], spec);
  }
  const resource = substituteResource(only(rule('[]', '{name: x, namespace: [1]}')), {
    id: 'a',
    origin: ORIGIN,
    rootNamespace: 'root',
  });
  assert.equal(resource.meta.namespace, 'root');
});

test('without other documents of the policy component, rules that need them refuse requests: no substitute', () => {
  assert.deepEqual(substitutes(policy('handler', '{}', undefined, 'config.mesh.io/v1alpha2')), []);
});

test('a rule in a file that cannot be parsed is recognized', () => {
  assert.deepEqual(
    salvaged(`${rule('{match: "a"')}\t[`)?.map(({ kind, namespace, name }) => [kind, namespace, name]),
    [['rule', 'ns', 'x']],
  );
  assert.equal(salvaged('kind: rule\nspec:\t['), undefined);
});
