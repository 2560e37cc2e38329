/** Meshes for tests of generation, built from documents as users write them. */
import { DEFAULT_SETTINGS } from '../../model/testing/settings.ts';
import { createModel, replay } from '../../model/testing/steps.ts';
import type { ModelSettings, Snapshot } from '../../model/types/types.ts';
import { type AnyResource, CORE_KINDS, SECURITY_KINDS } from '../../resources/kinds/types.ts';
import { defaultMeshConfig, defaultMeshNetworks, type MeshConfig } from '../../resources/mesh-config.ts';
import { parseResource } from '../../resources/parsing/parse.ts';

/** A document as a resource; a refused one is a mistake of the test. */
export function parsed(document: unknown): AnyResource {
  const result = parseResource(document, { source: 'test' }, () => undefined);
  if (!('resource' in result)) throw new Error(JSON.stringify(result));
  return result.resource;
}

/** The resource of a kind with a spec. */
export function meshResource(
  kind: string,
  namespace: string,
  name: string,
  spec: object,
  annotations: Readonly<Record<string, string>> = {},
): AnyResource {
  return parsed({ apiVersion: apiVersionOf(kind), kind, metadata: { name, namespace, annotations }, spec });
}

function apiVersionOf(kind: string): string {
  if ((CORE_KINDS as readonly string[]).includes(kind)) return 'v1';
  const isSecurity = (SECURITY_KINDS as readonly string[]).includes(kind);
  return isSecurity ? 'security.mesh.io/v1beta1' : 'networking.mesh.io/v1alpha3';
}

export interface MeshOptions {
  readonly settings?: Partial<ModelSettings>;
  readonly mesh?: Partial<MeshConfig>;
}

/** The mesh with these resources. */
export function meshOf(resources: readonly AnyResource[], { settings, mesh }: MeshOptions = {}): Snapshot {
  const config = { ...defaultMeshConfig(), ...mesh };
  return replay(createModel({ ...DEFAULT_SETTINGS, ...settings }, config, defaultMeshNetworks()), resources);
}
