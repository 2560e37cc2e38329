/**
 * The documents are correct as far as a program can tell: every example is run by a test or says why not, every
 * configuration is valid, links and paths lead somewhere, and names of variables and metrics exist.
 */
import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import { parseResource } from '../../resources/index.ts';
import { MODULES } from '../modules.ts';
import { anchorsOf, blocksOf, DOCUMENTS, proseOf, readDocument } from './markdown.ts';

const REPOSITORY = join(import.meta.dirname, '../../..');

/** Documents about the programs, which are neither generated nor about the benches. */
const WRITTEN = DOCUMENTS.filter((document) => !/^docs\/(?:reference|benchmarks)|^bench|^CHANGELOG/.test(document));

/** Examples that the end-to-end tests run, as `document: title`. */
const RUN = new Set(
  globSync('test/e2e/documents-*.test.ts', { cwd: REPOSITORY }).flatMap((file) => {
    const text = readFileSync(join(REPOSITORY, file), 'utf8');
    return [...text.matchAll(/\bexample\('([^']+)', '([^']+)'/g)].map(([, document, title]) => `${document}: ${title}`);
  }),
);

/** The first line of an example that no test runs, with the reason. */
const NOT_RUN = /^Not run (?:here|by a test): \S/;

const EXAMPLES = DOCUMENTS.flatMap((document) =>
  blocksOf(readDocument(document))
    .filter(({ language }) => language === 'sh' || language === 'yaml')
    .map((block) => ({ ...block, document })),
);

test('every example has a title that no other of its document has', () => {
  const titles = EXAMPLES.filter(({ title }) => !NOT_RUN.test(title)).map(({ document, title }) => [document, title]);
  assert.deepEqual(
    EXAMPLES.filter(({ title }) => title === '').map(({ document, line }) => `${document}:${line}`),
    [],
  );
  assert.equal(new Set(titles.map(String)).size, titles.length, String(titles));
});

test('every example of commands is run by an end-to-end test, or says why not', () => {
  const commands = EXAMPLES.filter(({ language }) => language === 'sh').filter(({ title }) => !NOT_RUN.test(title));
  const missing = commands.map(({ document, title }) => `${document}: ${title}`).filter((name) => !RUN.has(name));
  assert.deepEqual(missing, []);
});

test('what end-to-end tests run exists in the documents', () => {
  const existing = new Set(EXAMPLES.map(({ document, title }) => `${document}: ${title}`));
  assert.deepEqual(
    [...RUN].filter((name) => !existing.has(name)),
    [],
  );
});

test('every example of configuration is valid, without warnings', () => {
  const found: string[] = [];
  for (const { document, line, title, text, language } of EXAMPLES) {
    if (language !== 'yaml' || NOT_RUN.test(title) || RUN.has(`${document}: ${title}`)) continue;
    for (const each of parseAllDocuments(text)) {
      assert.deepEqual(each.errors, []);
      const parsed = parseResource(each.toJS(), { source: 'directory', file: document, line }, () => undefined);
      const warnings = 'resource' in parsed ? (parsed.resource.warnings ?? []) : [parsed];
      for (const warning of warnings) found.push(`${document}:${line}: ${JSON.stringify(warning)}`);
    }
  }
  assert.deepEqual(found, []);
});

test('links lead to files and headings that exist', () => {
  const broken = DOCUMENTS.flatMap((document) =>
    proseOf(readDocument(document)).flatMap(({ line, text }) =>
      [...text.matchAll(/\]\(([^)\s]+)\)/g)]
        .map(([, target = '']) => target)
        .filter((target) => !/^https?:/.test(target) && !leadsSomewhere(document, target))
        .map((target) => `${document}:${line}: ${target}`),
    ),
  );
  assert.deepEqual(broken, []);
});

function leadsSomewhere(document: string, target: string): boolean {
  const [path = '', anchor] = target.split('#');
  const file = path === '' ? document : normalize(join(dirname(document), path));
  if (!existsSync(join(REPOSITORY, file))) return false;
  return anchor === undefined || anchorsOf(readDocument(file)).has(anchor);
}

test('files and folders of the repository that documents name exist', () => {
  const missing = DOCUMENTS.filter((document) => document !== 'CHANGELOG.md').flatMap((document) =>
    proseOf(readDocument(document)).flatMap(({ line, text }) =>
      [...text.matchAll(/`((?:src|test|bench|workers|proto|samples|\.ci)\/[\w./*-]+)`/g)]
        .map(([, path = '']) => path)
        .filter((path) => !path.startsWith('proto/gen') && globSync(path, { cwd: REPOSITORY }).length === 0)
        .map((path) => `${document}:${line}: ${path}`),
    ),
  );
  assert.deepEqual(missing, []);
});

test('variables, flags and metrics that documents name exist', () => {
  const reference = ['flags', 'variables', 'metrics'].map((name) => readDocument(`docs/reference/${name}.md`)).join();
  const iptables = readFileSync(join(REPOSITORY, 'src/settings/agent-iptables-flags.ts'), 'utf8');
  const foreign = /^--(?:mode|user|help|reuid|regid|clear-groups)/;
  const unknown = WRITTEN.flatMap((document) =>
    [...readDocument(document).matchAll(/`(CTL_[A-Z_0-9]+|ctl_[a-z_]+[a-z]|--[a-z][A-Za-z_-]+)\b/g)]
      .map(([, name = '']) => name)
      .filter((name) => !foreign.test(name) && !reference.includes(name) && !iptables.includes(name.slice(2)))
      .map((name) => `${document}: ${name}`),
  );
  assert.deepEqual(unknown, []);
});

test('the table of modules has all modules in their order', () => {
  const rows = readDocument('docs/architecture.md').matchAll(/^\| `src\/([a-z0-9-]+)`/gm);
  const folders = MODULES.filter((name) => existsSync(join(REPOSITORY, 'src', name)));
  assert.deepEqual(
    [...rows].map(([, name]) => name),
    folders,
  );
});

test('prose has at most 140 columns, tables excepted', () => {
  const long = DOCUMENTS.flatMap((document) =>
    proseOf(readDocument(document))
      .filter(({ text }) => !text.startsWith('|') && [...text].length > 140)
      .map(({ line, text }) => `${document}:${line}: ${[...text].length} columns`),
  );
  assert.deepEqual(long, []);
});

test('the README and the results stay short', () => {
  const lines = (document: string): number => readDocument(document).split('\n').length - 1;
  assert.ok(lines('README.md') <= 130, `README.md has ${lines('README.md')} lines`);
  assert.ok(lines('bench/RESULTS.md') <= 100, `bench/RESULTS.md has ${lines('bench/RESULTS.md')} lines`);
});
