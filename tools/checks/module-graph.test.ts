/**
 * The shape of the program, read from its import statements: modules import downwards only and through each other's
 * entry points, and no file reaches itself through others. Tests and what they share may import from anywhere.
 */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { test } from 'node:test';
import { MODULES, MORE_ENTRY_POINTS, PARTS, THREADS } from './modules.ts';

const REPOSITORY = join(import.meta.dirname, '../..');

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

for (const [folder, order] of Object.entries(PARTS)) {
  test(`parts of ${folder} import from lower ones alone`, () => {
    assert.deepEqual(misdirected(folder, order), []);
  });
}

/** Folders of modules and their parts that have an entry point. */
const ENTERED = Object.entries({ 'src/': MODULES, ...PARTS })
  .flatMap(([folder, names]) => names.map((name) => `${folder}${name}/`))
  .filter((folder) => FILES.includes(`${folder}index.ts`));

test('a module is imported through its entry point only', () => {
  const past = IMPORTS.filter(({ from, to }) => {
    const importer = THREADS[from] ?? from;
    const outermost = ENTERED.filter((folder) => to.startsWith(folder) && !importer.startsWith(folder)).sort()[0];
    if (outermost === undefined) return false;
    return to !== `${outermost}index.ts` && !MORE_ENTRY_POINTS.some((pattern) => pattern.test(to));
  });
  assert.deepEqual(past, []);
});

test('every module is in the order, and has an entry point', () => {
  const modules = new Set(FILES.map((file) => /^src\/([^/.]+)/.exec(file)?.[1]).filter((name) => name !== undefined));
  assert.deepEqual([...modules].sort(), [...MODULES].sort());
  const folders = MODULES.filter((name) => FILES.some((file) => file.startsWith(`src/${name}/`)));
  const entered = folders.filter((name) => ENTERED.includes(`src/${name}/`));
  assert.deepEqual(
    folders.filter((name) => !entered.includes(name)),
    ['core', 'cli'],
  );
});

test('no file imports itself through others', () => {
  assert.deepEqual(cycles(), []);
});
