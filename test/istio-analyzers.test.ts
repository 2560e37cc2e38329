/**
 * The test data of Istio's analyzers as input: which codes this analysis finds in each file beside, or instead of,
 * those that Istio expects. `istio-analyzers/verdicts.json` has the cases that differ, with the reason; all others
 * agree. The data is read from Go's module cache, and nothing of it is kept here. Without it these tests are skipped:
 *
 *     go mod download istio.io/istio@<version>
 */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { analyzeFiles } from '../src/cli/analyze/files.ts';
import { tempDir } from './harness/index.ts';

const CACHE = process.env.GOMODCACHE ?? join(process.env.GOPATH ?? join(homedir(), 'go'), 'pkg/mod');
const VERDICTS = join(import.meta.dirname, 'istio-analyzers/verdicts.json');

/** Istio 1.7.8, and the master of 2026-08-27. */
const GENERATIONS = {
  '1.7': { version: 'v0.0.0-20210223230603-30e54dcb8a1c', folder: 'galley/pkg/config/analysis' },
  newer: { version: 'v0.0.0-20260827124520-eed52ebb66ad', folder: 'pkg/config/analysis' },
} as const;
type Generation = keyof typeof GENERATIONS;

interface Verdict {
  /** Codes that Istio expects and that are not found, with the number of resources. */
  readonly missing?: Readonly<Record<string, number>>;
  /** Codes that the analyzer of the case can report, and that are found in other resources. */
  readonly extra?: Readonly<Record<string, number>>;
  readonly why: string;
}
type Verdicts = Record<Generation, Record<string, Verdict>>;

interface Case {
  /** The name of the case and its number. */
  readonly id: string;
  readonly analyzer: string;
  readonly files: readonly string[];
  readonly meshConfigFile: string | undefined;
  readonly networksConfigFile: string | undefined;
  /** `code Kind namespace/name`. */
  readonly expected: readonly string[];
}

/** The rows of the table in `analyzers_test.go`. */
function casesIn(folder: string): Case[] {
  const codes = new Map(
    [
      ...readFileSync(join(folder, 'msg/messages.gen.go'), 'utf8').matchAll(
        /(\w+) = diag\.NewMessageType\(diag\.\w+, "(IST\d+)"/g,
      ),
    ].map(([, name = '', code = '']) => [name, code] as const),
  );
  const source = readFileSync(join(folder, 'analyzers/analyzers_test.go'), 'utf8');
  const rows = source
    .slice(source.indexOf('var testGrid'))
    .split(/\n\t\{\n/)
    .slice(1);
  return rows.map((row, index): Case => {
    const field = (name: string): string | undefined => new RegExp(`${name}:\\s*"([^"]+)"`).exec(row)?.[1];
    const files = /inputFiles:\s*\[\]string\{([\s\S]*?)\}/.exec(row)?.[1] ?? '';
    const pathOf = (file: string | undefined) => (file === undefined ? undefined : join(folder, 'analyzers', file));
    return {
      id: `${index} ${field('name')}`,
      analyzer: /analyzer:\s*([^\n]+),\n/.exec(row)?.[1] ?? '',
      files: [...files.matchAll(/"([^"]+)"/g)].map(([, file]) => pathOf(file) ?? ''),
      meshConfigFile: pathOf(field('meshConfigFile')),
      networksConfigFile: pathOf(field('meshNetworksFile')),
      expected: [...row.matchAll(/\{msg\.(\w+), "([^"]*)"\}/g)].map(
        ([, name = '', resource = '']) => `${codes.get(name)} ${shortened(resource)}`,
      ),
    };
  });
}

/** `Kind namespace/name`, without the namespace `default`; Istio 1.7 writes `Kind name.namespace`. */
function shortened(resource: string): string {
  const [kind = '', name = ''] = resource.split(' ');
  const [, first = '', last] = /^([^./]+)(?:\.([^./]+))?$/.exec(name) ?? [];
  const full = last === undefined ? name : `${last}/${first}`;
  return `${kind.replace(/^Kubernetes/, '')} ${full.replace(/^default\//, '')}`;
}

function counts(findings: readonly string[]): Record<string, number> {
  const found: Record<string, number> = {};
  for (const code of findings.map((each) => each.split(' ')[0] ?? '').sort()) found[code] = (found[code] ?? 0) + 1;
  return found;
}

/** What differs; undefined where nothing does. */
async function differences(each: Case, codes: ReadonlySet<string>, meshConfigFile: string) {
  const files = {
    paths: each.files,
    meshConfigFile: each.meshConfigFile ?? meshConfigFile,
    networksConfigFile: each.networksConfigFile ?? '',
    env: {},
    readInput: async () => '',
  };
  const { findings } = await analyzeFiles(files).catch(() => ({ findings: [] }));
  const found = new Set(
    findings.flatMap(({ code, resource: { kind, namespace, name } }) =>
      codes.has(code) ? `${code} ${shortened(`${kind} ${namespace === '' ? '' : `${namespace}/`}${name}`)}` : [],
    ),
  );
  const wanted = new Set(each.expected);
  const [missing, extra] = [[...wanted.difference(found)], [...found.difference(wanted)]];
  if (missing.length + extra.length === 0) return undefined;
  return {
    ...(missing.length === 0 ? {} : { missing: counts(missing) }),
    ...(extra.length === 0 ? {} : { extra: counts(extra) }),
  };
}

const recorded = JSON.parse(readFileSync(VERDICTS, 'utf8')) as Verdicts;

describe("Istio's analyzers expect in their own test data what is found here", () => {
  for (const generation of Object.keys(GENERATIONS) as Generation[]) {
    const { version, folder } = GENERATIONS[generation];
    const data = join(CACHE, `istio.io/istio@${version}`, folder);
    const skip = existsSync(data) ? false : `Go's module cache has no istio.io/istio@${version}`;
    test(`Istio ${generation}`, { skip }, async (t) => {
      const meshConfigFile = join(await tempDir(t), 'mesh.yaml');
      writeFileSync(meshConfigFile, 'rootNamespace: istio-system\n');
      const cases = casesIn(data);
      assert.ok(cases.length > 20);
      const codes = Map.groupBy(cases, ({ analyzer }) => analyzer);
      const found: Record<string, Verdict> = {};
      for (const each of cases) {
        const ofAnalyzer = (codes.get(each.analyzer) ?? []).flatMap(({ expected }) => expected);
        const known = new Set(ofAnalyzer.map((finding) => finding.split(' ')[0] ?? ''));
        const differs = await differences(each, known, meshConfigFile);
        const why = recorded[generation][each.id]?.why ?? 'not known';
        if (differs !== undefined) found[each.id] = { ...differs, why };
      }
      if (process.env.UPDATE_VERDICTS === '1') {
        recorded[generation] = found;
        writeFileSync(VERDICTS, `${JSON.stringify(recorded, undefined, 2)}\n`);
      }
      assert.deepEqual(found, recorded[generation]);
      t.diagnostic(`${cases.length - Object.keys(found).length} of ${cases.length} cases agree`);
    });
  }
});
