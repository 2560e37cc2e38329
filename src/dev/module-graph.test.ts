/**
 * The shape of the program, read from its import statements: modules import downwards only and through each other's
 * entry points, and no file reaches itself through others. Tests and what they share may import from anywhere.
 */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { test } from 'node:test';

const REPOSITORY = join(import.meta.dirname, '../..');

/** Folders of `src`, the lowest first: each may import from those before it. */
const MODULES = [
  'paths',
  'core',
  'protobuf',
  'grpc',
  'http',
  'resources',
  'sources',
  'store',
  'model',
  'generate',
  'push',
  'security',
  'xds',
  'observe',
  'settings',
  'discovery',
  'agent',
  'cli',
];

/**
 * Modules of `src/generate`, the lowest first. `types` is what generation takes and gives; those after `gateways` put
 * it together.
 */
const GENERATORS = [
  'indexes',
  'reads',
  'types',
  'common',
  'domains',
  'filters',
  'policies',
  'secrets',
  'plans',
  'endpoints',
  'clusters',
  'listeners',
  'routes',
  'gateways',
  'changed-facts',
  'touched-units',
  'generate',
  'index',
];

/** Modules of `src/grpc`, the lowest first. */
const GRPC = [
  'types',
  'buffers',
  'limits',
  'frames',
  'hpack',
  'headers',
  'messages',
  'streams',
  'connection',
  'unary',
  'server',
  'index',
];

/** Modules of `src/xds`, the lowest first: the protocol knows neither how requests are read nor who serves it. */
const XDS = ['protocol', 'request', 'server', 'index'];

/** Modules of `src/push`, the lowest first. */
const PUSH = ['types', 'protocol', 'bundles', 'reads', 'proxies', 'jobs', 'views', 'sessions', 'engine', 'index'];

/** Folders whose files others import only by way of `index.ts`. */
const ENCLOSED = [
  /^(src\/generate\/[^/]+\/)(.+)$/,
  /^(src\/push\/[^/]+\/)(.+)$/,
  /^(src\/(?:grpc|http|xds)\/)(.+)$/,
  /^(src\/xds\/(?:protocol|request|server)\/)(.+)$/,
];

interface Import {
  readonly from: string;
  readonly to: string;
}

const isTest = (file: string) => /\.test\.ts$|\/testing[^/]*\.ts$|\/testing\//.test(file);

const FILES = globSync(['src/**/*.ts', 'workers/*.ts'], { cwd: REPOSITORY }).filter((file) => !isTest(file));

const IMPORTS: readonly Import[] = FILES.flatMap((from) => {
  const text = readFileSync(join(REPOSITORY, from), 'utf8');
  const statements = text.matchAll(/^(?:import|export)\s(?:[^'";]*?\sfrom\s)?'(\.[^']+)'/gm);
  const calls = text.matchAll(/\bimport\('(\.[^']+)'\)/g);
  return [...statements, ...calls].map(([, path]) => ({ from, to: normalize(join(dirname(from), path ?? '')) }));
});

/**
 * Imports between the modules of a folder that go upwards, or past an entry point. A module is a folder, or a file
 * beside them.
 */
function misdirected(folder: string, order: readonly string[]): string[] {
  const moduleOf = (file: string) => /^([^/]+?)(?:\.ts|\/.*)$/.exec(file.slice(folder.length))?.[1] ?? file;
  const found: string[] = [];
  for (const { from, to } of IMPORTS) {
    if (!from.startsWith(folder) || !to.startsWith(folder)) continue;
    const [importing, imported] = [moduleOf(from), moduleOf(to)];
    if (importing === imported || !order.includes(importing)) continue;
    if (order.indexOf(imported) >= order.indexOf(importing)) found.push(`${from} imports ${to}, which is above it`);
    else if (!order.includes(imported)) found.push(`${from} imports ${to}: expected its module in the order`);
  }
  return found;
}

/** Groups of files each of which imports the others, directly or not. */
function cycles(): string[][] {
  const imported = new Map<string, string[]>(FILES.map((file) => [file, []]));
  for (const { from, to } of IMPORTS) if (imported.has(to)) imported.get(from)?.push(to);
  const reach = (start: string): Set<string> => {
    const seen = new Set<string>();
    const open = [...(imported.get(start) ?? [])];
    for (let file = open.pop(); file !== undefined; file = open.pop()) {
      if (seen.has(file)) continue;
      seen.add(file);
      open.push(...(imported.get(file) ?? []));
    }
    return seen;
  };
  const reached = new Map(FILES.map((file) => [file, reach(file)]));
  const groups = new Map<string, string[]>();
  for (const file of FILES) {
    const group = [...(reached.get(file) ?? [])].filter((other) => reached.get(other)?.has(file) === true).sort();
    if (group.length > 0) groups.set(group.join(), group);
  }
  return [...groups.values()];
}

test('modules import from lower ones alone', () => {
  assert.deepEqual(misdirected('src/', MODULES), []);
});

test('modules of generation import from lower ones alone', () => {
  assert.deepEqual(misdirected('src/generate/', GENERATORS), []);
});

test('modules of the gRPC server import from lower ones alone', () => {
  assert.deepEqual(misdirected('src/grpc/', GRPC), []);
});

test('modules of xDS import from lower ones alone', () => {
  assert.deepEqual(misdirected('src/xds/', XDS), []);
});

test('modules of the push engine import from lower ones alone', () => {
  assert.deepEqual(misdirected('src/push/', PUSH), []);
});

test('modules are reached through their entry points alone', () => {
  const past = IMPORTS.filter(({ from, to }) =>
    ENCLOSED.some((pattern) => {
      const [, module, rest] = pattern.exec(to) ?? [];
      return module !== undefined && rest !== 'index.ts' && !from.startsWith(module);
    }),
  );
  assert.deepEqual(past, []);
});

test('no file imports itself through others', () => {
  assert.deepEqual(cycles(), []);
});
