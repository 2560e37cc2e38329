import assert from 'node:assert/strict';
import { test } from 'node:test';
import { finish } from '../../core/slices.ts';
import { documentLimits } from '../../resources/index.ts';
import { readDocuments } from './documents.ts';

function lines(file: string, text: string): string[] {
  return finish(readDocuments(file, text))
    .flatMap((part) => part.found)
    .map((found) => {
      if ('resource' in found)
        return `${found.resource.kind} ${found.resource.meta.name}:${found.resource.origin.line}`;
      if ('ignored' in found) return `ignored ${found.ignored.what}:${found.ignored.origin.line}`;
      return `problem ${found.problem.field}:${found.problem.origin.line}`;
    });
}

const POD = 'apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\nspec: {}\n';

test('documents have their line; comments and empty documents are skipped', () => {
  assert.deepEqual(lines('a.yaml', `# c\n---\n# d\n${POD}---\n---\n${POD}`), ['Pod p:4', 'Pod p:11']);
});

test('an error points at the line of its field, whichever parser read the document', () => {
  const gateway =
    'apiVersion: networking.mesh.io/v1alpha3\nkind: Gateway\nmetadata: {name: g}\nspec:\n  servers:\n  - prt: 1\n';
  assert.deepEqual(lines('a.yaml', `${POD}---\n${gateway}`), ['Pod p:1', 'problem spec.servers[0].prt:12']);
  assert.deepEqual(lines('a.yaml', `${POD}---\n${gateway} # ä`), ['Pod p:1', 'problem spec.servers[0].prt:12']);
});

test('a document that asks for more than the limits is a problem, and the other documents are read', () => {
  const subsets = 'subsets: [{name: a}, {name: b}]';
  const rule = `apiVersion: networking.mesh.io/v1alpha3\nkind: DestinationRule\nmetadata: {name: r}\nspec:\n  host: web\n  ${subsets}\n`;
  const read = (factor: number) => finish(readDocuments('a.yaml', `${rule}---\n${POD}`, [], documentLimits(factor)));
  const [refused, pod] = read(0.001).flatMap(({ found }) => found);
  assert.ok(refused !== undefined && 'problem' in refused && pod !== undefined && 'resource' in pod);
  assert.deepEqual([refused.problem.field, refused.problem.origin.line], ['spec.subsets', 6]);
  assert.match(refused.problem.message, /at most 1 subsets, got 2/);
  assert.ok(read(0.002).every(({ found }) => found.every((each) => 'resource' in each)));
});

test('lists are their items, JSON is read, kinds of other systems are ignored', () => {
  const list = `apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Namespace\n  metadata: {name: n}\n- apiVersion: apps/v1\n  kind: Deployment\n`;
  assert.deepEqual(lines('a.yaml', list), ['Namespace n:4', 'ignored apps/v1 Deployment:7']);
  assert.deepEqual(lines('a.json', '{\n"apiVersion": "v1", "kind": "Namespace",\n"metadata": {"name": "n"}}'), [
    'Namespace n:1',
  ]);
});

test('nested lists are read, in any case; in lists that cannot be read, policies are refused', () => {
  const policy =
    '  apiVersion: security.istio.io/v1beta1\n  kind: PeerAuthentication\n  metadata: {name: p, namespace: n}\n  spec: {mtls: {mode: STRICT}}\n';
  const list = (kind: string, items = 'items') => `apiVersion: v1\nkind: ${kind}\n${items}:\n- ${policy.slice(2)}`;
  for (const kind of ['List', 'list', 'Lst', 'PeerAuthenticationList'])
    assert.deepEqual(lines('a.yaml', list(kind)), ['PeerAuthentication p:4'], kind);
  const nested = `kind: List\nitems:\n- kind: List\n  items: []\n- kind: List\n  items: [{kind: List, items: [${JSON.stringify({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'n' } })}]}]\n`;
  assert.deepEqual(lines('a.yaml', nested), ['Namespace n:6']);
  assert.deepEqual(lines('a.yaml', 'kind: List\napiVersion: v1\nitems:\n'), []);
  assert.equal(lines('a.yaml', 'a: &a\n  kind: List\n  items: [*a]\nkind: List\nitems: [*a]\n').length, 1);
  const block = `|\n${policy}`;
  for (const text of [list('List', 'item'), `- ${policy.slice(2)}`, block, JSON.stringify(policy)]) {
    const [found, ...more] = finish(readDocuments('a.yaml', text)).flatMap((part) => part.found);
    assert.ok(found !== undefined && 'problem' in found && more.length === 0, text);
    assert.deepEqual(
      found.problem.substitutes?.map(({ kind, namespace }) => [kind, namespace]),
      [['PeerAuthentication', 'n']],
      text,
    );
  }
});

test('hostile documents affect only themselves', () => {
  const bomb = `a: &a [x,x,x,x,x,x,x,x,x]\n${'bcdefghi'
    .split('')
    .map((name, i) => `${name}: &${name} [${Array(9).fill(`*${'abcdefgh'[i]}`).join(',')}]`)
    .join('\n')}\n`;
  assert.deepEqual(lines('a.yaml', `${bomb}---\n${POD}`), ['problem :1', `Pod p:${bomb.split('\n').length + 1}`]);
  const deep = `${'['.repeat(20_000)}${']'.repeat(20_000)}\n`;
  const found = lines('a.yaml', `${deep}---\n${POD}`);
  assert.deepEqual([found.length, found[1]], [2, 'Pod p:3']);
});

test('a document after an end mark without its own marker is refused with a message that says what to write', () => {
  const [part] = finish(readDocuments('a.yaml', `${POD}...\n${POD}`));
  const [found] = part?.found ?? [];
  assert.ok(found !== undefined && 'problem' in found);
  assert.match(found.problem.message, /expected YAML or JSON: documents must be separated by "---" lines/);
});

test('an unchanged document at the same position is not parsed again', () => {
  const first = finish(readDocuments('a.yaml', `${POD}---\n${POD}`));
  const second = finish(readDocuments('a.yaml', `${POD}---\n${POD.replace('{}', '{hostNetwork: true}')}`, first));
  assert.equal(second[0], first[0]);
  assert.notEqual(second[1], first[1]);
});

test('nothing of a document bypasses the log, as warnings of a library would', async () => {
  const warnings: string[] = [];
  const note = (warning: Error): void => void warnings.push(warning.message);
  process.on('warning', note);
  try {
    const head = 'apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: n}\n';
    assert.deepEqual(lines('a.yaml', `${head}data: {? [hidden] : x}\n`).length, 1);
    await new Promise((resolve) => setImmediate(resolve));
  } finally {
    process.off('warning', note);
  }
  assert.deepEqual(warnings, []);
});
