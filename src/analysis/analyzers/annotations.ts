/** Annotations of the mesh's domains that are unknown, on the wrong kind, or have a wrong value. */

import { messageOf } from '../../core/errors.ts';
import { isObject } from '../../core/objects.ts';
import { INGRESS_CLASS_ANNOTATION, meshKey, SIDECAR_CONFIGURATION } from '../../resources/index.ts';
import type { AnalyzedMesh } from '../mesh/mesh.ts';
import type { AnnotationRule, Finding, Findings, Manifest } from '../types.ts';

/** The kinds of which annotations are checked. */
const KINDS = ['Namespace', 'Service', 'Pod', 'Deployment', 'StatefulSet', 'DaemonSet', 'ReplicaSet', 'Job'] as const;

/** Written by programs, and by other modes of Istio. */
const IGNORED: ReadonlySet<string> = new Set(['sidecar.mesh.io/status', 'mesh.io/rev', 'proxy.mesh.io/overrides']);
const IGNORED_DOMAINS = ['ambient.mesh.io', 'gateway.mesh.io'];

/** Annotations that are not read by injection. */
const OTHERS: ReadonlyMap<string, readonly string[]> = new Map([
  ['networking.mesh.io/exportTo', ['Service']],
  ['traffic.mesh.io/nodeSelector', ['Service']],
  ['networking.mesh.io/service-type', ['Service', 'Gateway']],
  [INGRESS_CLASS_ANNOTATION, ['Ingress']],
]);

/** Written by the label of the same name instead. */
const DEPRECATED: ReadonlyMap<string, string> = new Map([['sidecar.mesh.io/inject', 'use the label of the same name']]);

export function* annotations(mesh: AnalyzedMesh): Findings {
  const { annotationRules } = mesh;
  if (annotationRules === undefined) return;
  for (const manifest of mesh.manifests(...KINDS)) {
    const { metadata } = manifest.document;
    const written = isObject(metadata) && isObject(metadata.annotations) ? metadata.annotations : {};
    for (const [key, value] of Object.entries(written)) {
      yield undefined;
      if (typeof value === 'string') yield* annotation(mesh, manifest, annotationRules, key, value);
    }
  }
}

function* annotation(
  mesh: AnalyzedMesh,
  manifest: Manifest,
  rules: ReadonlyMap<string, AnnotationRule>,
  key: string,
  value: string,
): Generator<Finding> {
  const name = meshKey(key);
  if (!isOfMesh(name) || IGNORED.has(name)) return;
  const rule = rules.get(name);
  const kinds = rule === undefined ? OTHERS.get(name) : name === SIDECAR_CONFIGURATION ? ['Pod', 'Namespace'] : ['Pod'];
  if (kinds === undefined) {
    yield mesh.finding('IST0108', manifest, `annotation ${key} is not known`);
    return;
  }
  const { labels } = Object(manifest.document.metadata);
  const isWrittenTwice = isObject(labels) && Object.keys(labels).some((each) => meshKey(each) === name);
  const instead = DEPRECATED.get(name);
  if (instead !== undefined && !isWrittenTwice)
    yield mesh.finding('IST0135', manifest, `annotation ${key} is deprecated: ${instead}`);
  if (!kinds.includes(manifest.kind)) {
    const where = kinds.includes('Pod') ? 'a Pod, or the template of Pods' : kinds.join(' or ');
    yield mesh.finding(
      'IST0107',
      manifest,
      `annotation ${key} has no effect on a ${manifest.kind}: expected on ${where}`,
    );
    return;
  }
  const problem = rule?.read === undefined ? undefined : readProblem(rule.read, value);
  if (problem !== undefined) yield mesh.finding('IST0125', manifest, `annotation ${key}: ${problem}`);
}

function isOfMesh(name: string): boolean {
  if (name === INGRESS_CLASS_ANNOTATION) return true;
  const domain = name.slice(0, Math.max(0, name.indexOf('/')));
  return (domain === 'mesh.io' || domain.endsWith('.mesh.io')) && !IGNORED_DOMAINS.includes(domain);
}

function readProblem(read: (text: string) => unknown, value: string): string | undefined {
  try {
    read(value);
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}
