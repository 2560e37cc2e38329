/**
 * The CustomResourceDefinitions in `deploy/crds` are those that the schemas give; `UPDATE_CRDS=1` writes them.
 * `test/kubernetes/crds.test.ts` gives them to a real API server.
 */
import assert from 'node:assert/strict';
import { globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import { definitionFiles, definitionOf } from './definitions.ts';
import { ruledPaths } from './rules.ts';

const FOLDER = join(import.meta.dirname, '../../deploy/crds');

test('the definitions in deploy/crds are those of the schemas', () => {
  const wanted = definitionFiles();
  if (process.env.UPDATE_CRDS === '1') {
    rmSync(FOLDER, { recursive: true, force: true });
    for (const [name, text] of wanted) {
      mkdirSync(dirname(join(FOLDER, name)), { recursive: true });
      writeFileSync(join(FOLDER, name), text);
    }
  }
  const present = globSync('**/*.yaml', { cwd: FOLDER }).sort();
  assert.deepEqual(present, [...wanted.keys()].sort(), 'write them with UPDATE_CRDS=1');
  for (const [name, text] of wanted)
    assert.equal(readFileSync(join(FOLDER, name), 'utf8'), text, `${name} is old: write it with UPDATE_CRDS=1`);
});

test('every rule is about a part of a kind that exists', () => {
  const written = [...definitionFiles()].filter(([name]) => !name.startsWith('istio/'));
  const rules = written.flatMap(([, text]) => text.match(/x-kubernetes-validations/g) ?? []);
  assert.ok(rules.length > 0);
  for (const { kind, path } of ruledPaths()) {
    const steps = path.split(/(?=\.)/).filter((step) => step !== '');
    const definition = definitionOf(kind as Parameters<typeof definitionOf>[0], 'mesh.io') as unknown as {
      spec: { versions: { schema: { openAPIV3Schema: { properties: { spec: unknown } } } }[] };
    };
    let at: unknown = definition.spec.versions[0]?.schema.openAPIV3Schema.properties.spec;
    for (const step of steps) {
      const name = step.slice(1).replace('[]', '');
      const field = (at as { properties?: Record<string, { items?: unknown }> }).properties?.[name];
      at = step.endsWith('[]') ? field?.items : field;
      assert.ok(at !== undefined, `${kind} has no ${path}`);
    }
    assert.ok(Object.hasOwn(at as object, 'x-kubernetes-validations'), `${kind} ${path}`);
  }
});

test('deploy/rbac.yaml lets ctl-discovery list and watch every kind of the mesh, and no more of their groups', () => {
  interface Rule {
    readonly apiGroups: readonly string[];
    readonly resources: readonly string[];
    readonly verbs: readonly string[];
  }
  const documents = parseAllDocuments(readFileSync(join(FOLDER, '../rbac.yaml'), 'utf8'));
  const role = documents.map((document) => document.toJS()).find(({ kind }) => kind === 'ClusterRole');
  const allowed = (role.rules as readonly Rule[]).flatMap(({ apiGroups, resources, verbs }) =>
    apiGroups.flatMap((group) => resources.map((resource) => `${verbs.join('+')} ${resource}.${group}`)),
  );
  const defined = [...definitionFiles().keys()].map((file) => file.replace(/^istio\//, '').replace(/\.yaml$/, ''));
  assert.deepEqual(
    allowed.filter((entry) => /\.(mesh|istio)\.io$/.test(entry)).sort(),
    [
      ...defined.map((name) => `list+watch ${name}`),
      ...defined.map((name) => `patch ${name.replace('.', '/status.')}`),
      // Workloads of a WorkloadGroup are registered by ctl-discovery.
      'get+create+update+delete workloadentries.networking.mesh.io',
      'patch workloadentries/status.networking.mesh.io',
    ].sort(),
  );
});
