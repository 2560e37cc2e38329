/** Fixtures: a mesh with authorization policies, and the filters that a workload gets for them. */
import { parse } from 'yaml';
import type { Snapshot } from '../../model/types/types.ts';
import type { AnyResource } from '../../resources/kinds/types.ts';
import type { InboundView } from '../views.ts';
import { inboundView } from './listeners.ts';
import { type MeshOptions, meshOf, meshResource } from './mesh.ts';

export interface TestPolicy {
  readonly name?: string;
  readonly namespace?: string;
  /** YAML, or its parsed form. */
  readonly spec: unknown;
  readonly annotations?: Readonly<Record<string, string>>;
}

/** A policy as users write it; a refused one is a mistake of the test. */
export function policyOf({ name = 'p', namespace = 'shop', spec, annotations = {} }: TestPolicy): AnyResource {
  const content = typeof spec === 'string' ? (parse(spec) as object) : (spec as object);
  return meshResource('AuthorizationPolicy', namespace, name, content, annotations);
}

/** A mesh, and a workload in it: of namespace `shop` by default. */
export function guarded(
  resources: readonly AnyResource[],
  { namespace = 'shop', ...options }: MeshOptions & { readonly namespace?: string } = {},
): { readonly snapshot: Snapshot; readonly view: InboundView } {
  const snapshot = meshOf(resources, options);
  const scope = snapshot.scopeOf(namespace, {}).id;
  const view = inboundView({ namespace, scope, policies: snapshot.policiesOf(namespace, {}) });
  return { snapshot, view };
}
