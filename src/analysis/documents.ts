/** Documents without a control plane: they are put together to the mesh that they describe, and analyzed. */
import { Model, type ModelSettings } from '../model/index.ts';
import {
  type AnyResource,
  keyOf,
  type MeshConfig,
  type MeshNetworks,
  type ResourceProblem,
} from '../resources/index.ts';
import type { AnalysisInput } from './mesh/mesh.ts';
import type { AnnotationRule, Manifest } from './types.ts';

export interface DocumentSet {
  /** Of several with one key, the first is in force. */
  readonly resources: readonly AnyResource[];
  readonly problems: readonly ResourceProblem[];
  readonly manifests: readonly Manifest[];
  readonly settings: ModelSettings;
  readonly mesh: MeshConfig;
  readonly networks: MeshNetworks;
  readonly annotationRules?: ReadonlyMap<string, AnnotationRule>;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

export function inputOf(documents: DocumentSet): AnalysisInput {
  const { resources, problems, manifests, settings, mesh, networks, annotationRules, now } = documents;
  const inForce = new Map<string, AnyResource>();
  for (const resource of resources) if (!inForce.has(keyOf(resource))) inForce.set(keyOf(resource), resource);
  const changes = [...inForce].map(([key, after]) => ({ key, before: undefined, after }));
  const { snapshot } = Model.empty(settings, mesh, networks).apply({ changes, eventTime: 0 });
  return {
    snapshot,
    problems,
    manifests,
    annotationRules,
    proxies: [],
    readsSecrets: true,
    warningsOf: () => [],
    now,
  };
}
