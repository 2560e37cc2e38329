/** The checks of documents find what is wrong, and nothing in what is right. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { documentedAnnotations } from './annotations.ts';
import { documentProblems, writeReference } from './problems.ts';

/** A repository with these files and a current reference. */
function repository(context: TestContext, files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'documents-'));
  context.after(() => rmSync(folder, { recursive: true }));
  writeReference(folder);
  // The reference links to golden files.
  const linked = documentedAnnotations().flatMap(({ shownBy }) => shownBy.map(({ path }) => [path, ''] as const));
  const always = {
    'docs/security-model.md': `## Debug pages\n\n${PORTS}\n`,
    'docs/analysis.md': '',
    'docs/metrics.md': '## Boards and alerts\n',
    'docs/architecture.md': '| `src/webhooks` | |\n',
    ...Object.fromEntries(linked),
  };
  for (const [path, text] of Object.entries({ ...always, ...files })) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  return folder;
}

const PORTS = '| 15010, 15012, 15053, 15017, 8080, 15014, 9876, 15021, 15090 | |';

const fenced = (language: string, ...lines: readonly string[]) => `\`\`\`${language}\n${lines.join('\n')}\n\`\`\`\n`;

const SERVICE = ['apiVersion: v1', 'kind: Service', 'metadata: { name: web }', 'spec: { ports: [{ port: 80 }] }'];

test('correct documents have no problems', (context) => {
  const folder = repository(context, {
    'docs/a.md': `# A page\n\n${fenced('sh', '# run me', 'true')}${fenced('yaml', '# a service', ...SERVICE)}`,
    'docs/b.md': `[link](a.md#a-page) \`CTL_PUSH_THROTTLE\` \`src/x.ts\` ${fenced('sh', '# Not run here: why', 'x')}`,
    'src/x.ts': '',
    'test/e2e/a.test.ts': "example('docs/a.md', 'run me');",
  });
  assert.deepEqual(documentProblems(folder), []);
});

for (const [what, text, problem] of [
  ['an example without a title', fenced('sh', 'true'), /^docs\/a\.md:1: an example begins with/],
  ['commands that no test runs', fenced('sh', '# a title', 'true'), /^docs\/a\.md:1: no test runs it/],
  ['an invalid resource', fenced('yaml', '# a service', 'apiVersion: v1', 'kind: Service'), /^docs\/a\.md:1: /],
  ['a link to no file', '[b](b.md)', /^docs\/a\.md:1: the link b\.md leads nowhere/],
  ['a link to no heading', '# A\n[a](#b)', /^docs\/a\.md:2: the link #b leads nowhere/],
  ['a path that does not exist', '`src/none.ts`', /^docs\/a\.md:1: there is no src\/none\.ts/],
  ['a variable that does not exist', '`CTL_NONE`', /^docs\/a\.md:1: no table has CTL_NONE/],
  ['a flag that does not exist', '`--noneSuch`', /^docs\/a\.md:1: no table has --noneSuch/],
  ['a metric that does not exist', '`ctl_none`', /^docs\/a\.md:1: no table has ctl_none/],
  ['a long paragraph', `- short\n- ${'a\n  '.repeat(91)}`, /^docs\/a\.md:2: a paragraph of 91 words, at most 90/],
  ['a table with a column too many', '| a | b |\n| --- | --- | --- |', /^docs\/a\.md:2: a row of 3 cells, expected 2/],
  [
    'a row with a cell too few',
    '| a | b |\n| --- | --- |\n| `x\\|y` |',
    /^docs\/a\.md:3: a row of 1 cells, expected 2/,
  ],
  ['a long line of prose', 'a'.repeat(141), /^docs\/a\.md:1: 141 columns/],
] as const) {
  test(`a problem is found: ${what}`, (context) => {
    const found = documentProblems(repository(context, { 'docs/a.md': text }));
    assert.equal(found.length, 1, String(found));
    assert.match(found[0] ?? '', problem);
  });
}

test('a problem is found: a long README', (context) => {
  const folder = repository(context, { 'README.md': '# A\n'.repeat(131) });
  assert.deepEqual(documentProblems(folder), ['README.md: 131 lines, at most 130']);
});

test('a problem is found: a test that runs an example that does not exist', (context) => {
  const folder = repository(context, { 'test/e2e/a.test.ts': "example('docs/a.md', 'run me');" });
  assert.deepEqual(documentProblems(folder), ['a test runs docs/a.md: run me: no such example']);
});

test('a problem is found: a reference that differs from the tables, and an extra page', (context) => {
  const folder = repository(context, { 'docs/reference/flags.md': 'old\n', 'docs/reference/none.md': '' });
  assert.deepEqual(documentProblems(folder), [
    'docs/reference/flags.md: not current, run: UPDATE_REFERENCE=1 npm test -- lint',
    'docs/reference/none.md: no page of the reference',
  ]);
});

test('a problem is found: a table of modules without a module', (context) => {
  const folder = repository(context, { 'src/core/x.ts': '', 'docs/architecture.md': '# Architecture\n' });
  assert.deepEqual(documentProblems(folder), ['docs/architecture.md: expected the modules core, webhooks']);
});

test('a problem is found: a port that the security model does not mention', (context) => {
  const text = `## Debug pages\n\n${PORTS.replace('15012, ', '')}\n`;
  const folder = repository(context, { 'docs/security-model.md': text });
  assert.deepEqual(documentProblems(folder), ['docs/security-model.md: no row about port 15012 (--secureGRPCAddr)']);
});
