/** How the files of this module may import each other. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { describe, it } from 'node:test';

const HERE = import.meta.dirname;

/** The files of this module, each with those of this module that it imports, types as well. */
function imports(): ReadonlyMap<string, readonly string[]> {
  const files = readdirSync(HERE, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'));
  return new Map(
    files.map((file) => {
      const text = readFileSync(join(HERE, file), 'utf8');
      const specifiers = Array.from(text.matchAll(/\bfrom '(\.[^']*)'/g), ([, specifier = '']) => specifier);
      const targets = specifiers.map((specifier) => relative(HERE, join(HERE, dirname(file), specifier)));
      return [file, targets.filter((target) => !target.startsWith('..'))];
    }),
  );
}

/** Paths that lead back to where they began. */
function cycles(graph: ReadonlyMap<string, readonly string[]>): string[] {
  const found: string[] = [];
  const done = new Set<string>();
  const walk = (file: string, path: readonly string[]): void => {
    const before = path.indexOf(file);
    if (before >= 0) found.push([...path.slice(before), file].join(' > '));
    if (before >= 0 || done.has(file)) return;
    for (const target of graph.get(file) ?? []) walk(target, [...path, file]);
    done.add(file);
  };
  for (const file of graph.keys()) walk(file, []);
  return found;
}

describe('the files of the xDS module', () => {
  it('import each other without cycles', () => {
    assert.deepEqual(cycles(imports()), []);
  });

  it('reach the reading of requests through its entry alone', () => {
    const past = [...imports()].flatMap(([file, targets]) =>
      file.startsWith('requests/')
        ? []
        : targets
            .filter((target) => target.startsWith('requests/') && target !== 'requests/index.ts')
            .map((target) => `${file} imports ${target}`),
    );
    assert.deepEqual(past, []);
  });
});
