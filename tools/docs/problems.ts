/**
 * Part of the lint stage: the documents are correct as far as a program can tell. Every example is run by a test or
 * says why not, configuration is valid, links and paths lead somewhere, names of settings and metrics exist, every port
 * is in the security model, and `docs/reference` is current.
 */
import { existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { parseResource } from '../../src/resources/index.ts';
import { agentEnv, discoveryFlags } from '../../src/settings/index.ts';
import { MODULES } from '../checks/modules.ts';
import { documentedAnnotations } from './annotations.ts';
import { anchorsOf, type Block, blocksOf, documentsOf, paragraphsOf, proseOf, tablesOf } from './markdown.ts';
import { referencePages } from './reference.ts';

/** The first line of an example that no test runs, with the reason. */
const NOT_RUN = /^Not run (?:here|by a test): \S/;

/** Columns of prose; tables may be wider. */
const MAX_COLUMNS = 140;

/** Words of a paragraph or list item in `docs`. */
const MAX_WORDS = 90;

/** The maximum number of lines of documents that must stay short. */
const MAX_LINES: Readonly<Record<string, number>> = { 'README.md': 130, 'bench/RESULTS.md': 100 };

interface Repository {
  readonly folder: string;
  readonly documents: ReadonlyMap<string, string>;
}

type Check = (repository: Repository) => string[];

interface Example extends Block {
  readonly document: string;
}

function examplesOf({ documents }: Repository): Example[] {
  return [...documents].flatMap(([document, text]) =>
    blocksOf(text)
      .filter(({ language }) => language === 'sh' || language === 'yaml')
      .map((block) => ({ ...block, document })),
  );
}

/** Examples that tests run, as `document: title`. */
function examplesRun({ folder }: Repository): Set<string> {
  const tests = globSync('test/{e2e,kubernetes}/**/*.test.ts', { cwd: folder }).map((file) =>
    readFileSync(join(folder, file), 'utf8'),
  );
  const calls = tests.flatMap((text) => [...text.matchAll(/\bexample\('([^']+)', '([^']+)'/g)]);
  return new Set(calls.map(([, document, title]) => `${document}: ${title}`));
}

/** Examples have titles, different ones in a document; tests run all commands and name existing examples. */
const examples: Check = (repository) => {
  const [all, run] = [examplesOf(repository), examplesRun(repository)];
  const found: string[] = [];
  const names = new Set<string>();
  for (const { document, line, title, language } of all) {
    const name = `${document}: ${title}`;
    if (title === '') found.push(`${document}:${line}: an example begins with "# <title>"`);
    else if (!NOT_RUN.test(title)) {
      if (names.has(name)) found.push(`${document}:${line}: another example has the title "${title}"`);
      if (language === 'sh' && !run.has(name)) {
        found.push(`${document}:${line}: no test runs it: expected one, or "# Not run by a test: <reason>"`);
      }
    }
    names.add(name);
  }
  return [
    ...found,
    ...[...run].filter((name) => !names.has(name)).map((name) => `a test runs ${name}: no such example`),
  ];
};

/** Resources in examples are valid and cause no warning. */
const configuration: Check = (repository) => {
  const run = examplesRun(repository);
  const found: string[] = [];
  for (const { document, line, title, text, language } of examplesOf(repository)) {
    if (language !== 'yaml' || NOT_RUN.test(title) || run.has(`${document}: ${title}`)) continue;
    for (const each of parseAllDocuments(text)) {
      for (const { message } of each.errors) found.push(`${document}:${line}: ${message.split('\n')[0]}`);
      if (each.errors.length > 0) continue;
      const parsed = parseResource(each.toJS(), { source: 'directory', file: document, line }, () => undefined);
      const problems = 'resource' in parsed ? (parsed.resource.warnings ?? []) : [parsed];
      for (const problem of problems) found.push(`${document}:${line}: ${JSON.stringify(problem)}`);
    }
  }
  return found;
};

/** Links lead to files and headings that exist. */
const links: Check = ({ folder, documents }) =>
  prose(documents).flatMap(({ where, document, text }) =>
    [...text.matchAll(/\]\(([^)\s]+)\)/g)]
      .map(([, target = '']) => target)
      .filter((target) => {
        if (/^https?:/.test(target)) return false;
        const [path = '', anchor] = target.split('#');
        const file = path === '' ? document : normalize(join(dirname(document), path));
        if (!existsSync(join(folder, file))) return true;
        return anchor !== undefined && !anchorsOf(documents.get(file) ?? '').has(anchor);
      })
      .map((target) => `${where}: the link ${target} leads nowhere`),
  );

/** Files and folders of the repository that documents name exist. */
const paths: Check = ({ folder, documents }) =>
  prose(documents).flatMap(({ where, document, text }) =>
    [...text.matchAll(/`((?:src|test|bench|workers|proto|samples|\.ci)\/[\w./*-]+)`/g)]
      .map(([, path = '']) => path)
      .filter((path) => document !== 'CHANGELOG.md' && !path.startsWith('proto/gen'))
      .filter((path) => globSync(path, { cwd: folder }).length === 0)
      .map((path) => `${where}: there is no ${path}`),
  );

/** Flags of other programs. */
const FOREIGN_FLAG =
  /^--(?:mode|user|help|reuid|regid|clear-groups|max-semi-space-size|max-old-space-size|(?:no-)?parallel-scavenge)/;

/** Names of variables, flags and metrics exist. */
const names: Check = ({ documents }) => {
  const tables = ['flags.md', 'variables.md', 'metrics.md'].map((file) => referencePages().get(file) ?? '').join();
  const written = new Map(
    [...documents].filter(([path]) => !/^docs\/(?:reference|benchmarks)|^bench|^CHANGE/.test(path)),
  );
  return prose(written).flatMap(({ where, text }) =>
    [...text.matchAll(/`(CTL_[A-Z_0-9]+|ctl_[a-z_]+[a-z]|--[a-z][A-Za-z_-]+)\b/g)]
      .map(([, name = '']) => name)
      .filter((name) => !FOREIGN_FLAG.test(name) && !tables.includes(name))
      .map((name) => `${where}: no table has ${name}`),
  );
};

/** The table of modules has all modules, in their order. */
const modules: Check = ({ folder, documents }) => {
  const file = 'docs/architecture.md';
  const rows = [...(documents.get(file) ?? '').matchAll(/^\| `src\/([a-z0-9-]+)`/gm)].map(([, name]) => name);
  const folders = MODULES.filter((name) => existsSync(join(folder, 'src', name)));
  return String(rows) === String(folders) ? [] : [`${file}: expected the modules ${folders.join(', ')}`];
};

/** Ports that the programs listen on by default, by the flag or variable that sets them. */
function defaultPorts(): [setting: string, port: string][] {
  const flags = Object.entries(discoveryFlags).map(
    ([name, { default: value }]) => [`--${name}`, String(value)] as const,
  );
  const variables = Object.entries(agentEnv).map(([name, { default: value }]) => [name, String(value)] as const);
  return [...flags, ...variables].flatMap(([name, value]): [string, string][] => {
    const [, port] = (/_port$/i.test(name) ? /^(\d+)$/ : /^:(\d+)$/).exec(value) ?? [];
    return port === undefined ? [] : [[name, port]];
  });
}

/** The security model has a section about the callers of every port. */
const ports: Check = ({ documents }) => {
  const file = 'docs/security-model.md';
  const rows = [...(documents.get(file) ?? '').matchAll(/^\| ([\d, ]+) \|/gm)];
  const documented = new Set(rows.flatMap(([, cell = '']) => cell.split(',').map((port) => port.trim())));
  const missing = defaultPorts().filter(([, port]) => !documented.has(port));
  return missing.map(([setting, port]) => `${file}: no row about port ${port} (${setting})`);
};

const size: Check = ({ documents }) => [
  ...prose(documents)
    .filter(({ text }) => !text.startsWith('|') && [...text].length > MAX_COLUMNS)
    .map(({ where, text }) => `${where}: ${[...text].length} columns, at most ${MAX_COLUMNS}`),
  ...Object.entries(MAX_LINES).flatMap(([file, most]) => {
    const lines = (documents.get(file) ?? '').split('\n').length - 1;
    return lines > most ? [`${file}: ${lines} lines, at most ${most}`] : [];
  }),
];

/** A paragraph can be read at one glance. */
const paragraphs: Check = ({ documents }) =>
  [...documents]
    .filter(([document]) => document === 'README.md' || /^docs\/(?!reference)/.test(document))
    .flatMap(([document, text]) =>
      paragraphsOf(text)
        .map(({ line, text: content }) => ({ line, words: content.trim().split(/\s+/).length }))
        .filter(({ words }) => words > MAX_WORDS)
        .map(({ line, words }) => `${document}:${line}: a paragraph of ${words} words, at most ${MAX_WORDS}`),
    );

/** All rows of a table have the cells of its header: otherwise it is not shown as a table, or without some cells. */
const tables: Check = ({ documents }) =>
  [...documents].flatMap(([document, text]) =>
    tablesOf(text).flatMap(([header, ...rows]) =>
      rows
        .filter(({ cells }) => cells !== header?.cells)
        .map(({ line, cells }) => `${document}:${line}: a row of ${cells} cells, expected ${header?.cells}`),
    ),
  );

/** `docs/reference` agrees with the tables. */
const reference: Check = ({ documents }) => {
  const pages = referencePages();
  const old = [...pages]
    .filter(([file, text]) => documents.get(`docs/reference/${file}`) !== text)
    .map(([file]) => file);
  const extra = [...documents.keys()].filter(
    (path) => /^docs\/reference\/(.+)$/.test(path) && !pages.has(path.slice(15)),
  );
  return [
    ...old.map((file) => `docs/reference/${file}: not current, run: UPDATE_REFERENCE=1 npm test -- lint`),
    ...extra.map((path) => `${path}: no page of the reference`),
  ];
};

/** A golden file shows each annotation of injection. */
const annotations: Check = () =>
  documentedAnnotations()
    .filter(({ shownBy }) => shownBy.length === 0)
    .map(({ name }) => `docs/reference/annotations.md: no golden file of injection has ${name}`);

function prose(documents: ReadonlyMap<string, string>) {
  return [...documents].flatMap(([document, text]) =>
    proseOf(text).map((line) => ({ document, where: `${document}:${line.line}`, text: line.text })),
  );
}

const CHECKS: readonly Check[] = [
  examples,
  configuration,
  links,
  paths,
  names,
  modules,
  ports,
  size,
  paragraphs,
  tables,
  reference,
  annotations,
];

/** All problems of the documents of a repository, one line each. */
export function documentProblems(folder: string): string[] {
  const repository = { folder, documents: documentsOf(folder) };
  return CHECKS.flatMap((check) => check(repository));
}

/** Rewrites `docs/reference` from the tables. */
export function writeReference(folder: string): void {
  mkdirSync(join(folder, 'docs/reference'), { recursive: true });
  for (const [file, text] of referencePages()) writeFileSync(join(folder, 'docs/reference', file), text);
}
