/** Analyzes the documents of files, as the discovery service would read them with its default settings. */
import { readFile } from 'node:fs/promises';
import {
  type AnnotationRule,
  analyze,
  type DocumentSet,
  inputOf,
  type Manifest,
  shownFinding,
} from '../../analysis/index.ts';
import { CtlError, errnoOf, messageOf } from '../../core/errors.ts';
import { modelSettings } from '../../discovery/config/model-settings.ts';
import {
  defaultMeshConfig,
  defaultMeshNetworks,
  type ParsedConfig,
  parseMeshConfig,
  parseMeshNetworks,
} from '../../resources/index.ts';
import {
  discoveryEnv,
  discoveryFlags,
  type Environment,
  flagAndEnvSettings,
  parseFlags,
} from '../../settings/index.ts';
import { originOf, parseConfigText, type ReadDocument, readPaths, readText } from '../../sources/index.ts';
import { ANNOTATIONS, ANNOTATIONS_WITHOUT_EFFECT } from '../../webhooks/injection/index.ts';

export interface AnalyzedFiles {
  /** `-` is the standard input. */
  readonly paths: readonly string[];
  readonly meshConfigFile: string;
  readonly networksConfigFile: string;
  readonly env: Environment;
  /** The text of the standard input. */
  readonly readInput: () => Promise<string>;
}

/** Rejects with CtlError for a file that cannot be read. */
export async function analyzeFiles({ paths, meshConfigFile, networksConfigFile, env, readInput }: AnalyzedFiles) {
  const read: ReadDocument[] = [];
  for (const path of new Set(paths)) {
    read.push(...(path === '-' ? readText('standard input', await readInput()) : await readPaths([path])));
  }
  const settings = flagAndEnvSettings(discoveryFlags, parseFlags([], discoveryFlags), discoveryEnv, env);
  const mesh = await configFrom(meshConfigFile, parseMeshConfig, defaultMeshConfig);
  const documents: DocumentSet = {
    resources: read.flatMap(({ parsed }) => ('resource' in parsed ? [parsed.resource] : [])),
    problems: read.flatMap(({ parsed }) => ('problem' in parsed ? [parsed.problem] : [])),
    manifests: read.flatMap(manifestOf),
    settings: modelSettings(settings, mesh),
    mesh,
    networks: await configFrom(networksConfigFile, parseMeshNetworks, defaultMeshNetworks),
    annotationRules: annotationRules(),
    now: Date.now(),
  };
  const { findings, omitted } = analyze(inputOf(documents));
  const found = [...findings].filter((finding) => finding !== undefined);
  return { findings: found.map(shownFinding), omitted: omitted() };
}

function annotationRules(): Map<string, AnnotationRule> {
  const rules = new Map<string, AnnotationRule>([...ANNOTATIONS_WITHOUT_EFFECT.keys()].map((name) => [name, {}]));
  for (const { name, read } of Object.values(ANNOTATIONS)) rules.set(name, { read });
  return rules;
}

function manifestOf({ raw, parsed }: ReadDocument): Manifest[] {
  if (raw === undefined || typeof raw.kind !== 'string') return [];
  const { name = '', namespace = 'default' } = Object(raw.metadata);
  const isClusterScoped = raw.kind === 'Namespace' || raw.kind.endsWith('WebhookConfiguration');
  return [
    {
      kind: raw.kind,
      namespace: isClusterScoped ? '' : String(namespace),
      name: String(name),
      document: raw,
      origin: originOf(parsed),
    },
  ];
}

async function configFrom<T>(file: string, parse: (raw: unknown) => ParsedConfig<T>, byDefault: () => T): Promise<T> {
  if (file === '') return byDefault();
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    const reason = errnoOf(error) ?? messageOf(error);
    throw new CtlError('invalid_argument', `expected a readable file: ${reason}`, { file });
  });
  const parsed = parseConfigText(text, parse);
  if ('value' in parsed) return parsed.value;
  const { field, message, line } = parsed.refusal;
  throw new CtlError('invalid_argument', message, { file, ...(line === undefined ? {} : { line }), field });
}
