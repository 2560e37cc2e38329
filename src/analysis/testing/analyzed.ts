/** Analyzes YAML documents, as the program does without a cluster. */
import { parseAllDocuments } from 'yaml';
import { isObject } from '../../core/objects.ts';
import { DEFAULT_SETTINGS } from '../../model/testing/settings.ts';
import {
  type AnyResource,
  defaultMeshConfig,
  type MeshConfig,
  parseMeshNetworks,
  parseResource,
  type ResourceProblem,
} from '../../resources/index.ts';
import { ANNOTATIONS } from '../../webhooks/injection/index.ts';
import { analyze } from '../analyze.ts';
import { inputOf } from '../documents.ts';
import type { Finding, Manifest } from '../types.ts';

export const ANNOTATION_RULES = new Map(Object.values(ANNOTATIONS).map(({ name, read }) => [name, { read }]));

/** The findings in the documents of a text; a document with `networks` is the file of --networksConfig. */
export function findingsIn(text: string, mesh: Partial<MeshConfig> = {}): Finding[] {
  const resources: AnyResource[] = [];
  const problems: ResourceProblem[] = [];
  const manifests: Manifest[] = [];
  let networks: unknown = {};
  for (const [index, document] of parseAllDocuments(text).entries()) {
    const raw: unknown = document.toJS();
    if (!isObject(raw)) continue;
    if ('networks' in raw) {
      networks = raw;
      continue;
    }
    const origin = { source: 'test', file: 'test.yaml', line: index + 1 };
    const parsed = parseResource(raw, origin, () => undefined, { index });
    if ('resource' in parsed) resources.push(parsed.resource);
    else if ('problem' in parsed) problems.push(parsed.problem);
    const { name = '', namespace = '' } = Object(raw.metadata);
    manifests.push({ kind: String(raw.kind), namespace: String(namespace), name: String(name), document: raw, origin });
  }
  const parsed = parseMeshNetworks(networks);
  if ('problem' in parsed) throw new Error(parsed.problem.message);
  const input = inputOf({
    resources,
    problems,
    manifests,
    settings: DEFAULT_SETTINGS,
    mesh: { ...defaultMeshConfig(), ...mesh },
    networks: parsed.value,
    annotationRules: ANNOTATION_RULES,
    now: Date.UTC(2026, 0, 1),
  });
  return [...analyze(input).findings].filter((finding) => finding !== undefined);
}

/** The codes of these findings, each once. */
export function codesIn(text: string): string[] {
  return [...new Set(findingsIn(text).map(({ code }) => code))].sort();
}
