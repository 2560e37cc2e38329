/** Fixtures: a mesh with authorization policies, and the filters that a workload gets for them. */
import { parse } from 'yaml';
import { DEFAULT_SETTINGS } from '../../model/testing/settings.ts';
import { createModel, replay } from '../../model/testing/steps.ts';
import type { ModelSettings, Snapshot } from '../../model/types.ts';
import { defaultMeshConfig, defaultMeshNetworks, type MeshConfig } from '../../resources/mesh-config.ts';
import { parseResource } from '../../resources/parse.ts';
import type { AnyResource } from '../../resources/types.ts';
import type { InboundView } from '../types.ts';
import { inboundView } from './listeners.ts';

export interface TestPolicy {
  readonly name?: string;
  readonly namespace?: string;
  /** YAML, or its parsed form. */
  readonly spec: unknown;
}

/** A policy as users write it; a refused one is a mistake of the test. */
export function policyOf({ name = 'p', namespace = 'shop', spec }: TestPolicy): AnyResource {
  const document = {
    apiVersion: 'security.mesh.io/v1beta1',
    kind: 'AuthorizationPolicy',
    metadata: { name, namespace },
    spec: typeof spec === 'string' ? (parse(spec) as unknown) : spec,
  };
  return resourceOf(document);
}

export function resourceOf(document: unknown): AnyResource {
  const parsed = parseResource(document, { source: 'test' }, () => undefined);
  if (!('resource' in parsed)) throw new Error(JSON.stringify(parsed));
  return parsed.resource;
}

/** A mesh, and a workload in it: of namespace `shop` by default. */
export function guarded(
  resources: readonly AnyResource[],
  {
    mesh = {},
    settings = {},
    namespace = 'shop',
  }: {
    readonly mesh?: Partial<MeshConfig>;
    readonly settings?: Partial<ModelSettings>;
    readonly namespace?: string;
  } = {},
): { readonly snapshot: Snapshot; readonly view: InboundView } {
  const model = createModel(
    { ...DEFAULT_SETTINGS, ...settings },
    { ...defaultMeshConfig(), ...mesh },
    defaultMeshNetworks(),
  );
  const snapshot = replay(model, resources);
  const scope = snapshot.scopeOf(namespace, {}).id;
  const view = inboundView({ namespace, scope, policies: snapshot.policiesOf(namespace, {}) });
  return { snapshot, view };
}
