/**
 * For tests that are not about who acquires scopes: models as values. A step leaves the snapshot before it as it is,
 * and says of every scope that the snapshot has how it changed.
 */

import { ALL_KINDS, type AnyResource, keyOf } from '../../resources/kinds/types.ts';
import type { MeshConfig, MeshNetworks } from '../../resources/mesh-config.ts';
import type { MeshUpdate } from '../../resources/mesh-update.ts';
import { Model, type ModelChange, type ModelOptions } from '../model.ts';
import { defaultScopeId } from '../scopes/scope-plan.ts';
import type { ModelSettings, Snapshot } from '../types/types.ts';

const models = new WeakMap<Snapshot, Model>();

/** The model that stands at a snapshot of these functions. */
export function modelOf(snapshot: Snapshot): Model {
  const model = models.get(snapshot);
  if (model === undefined) throw new TypeError('expected a snapshot that createModel, applyChanges or replay has made');
  return model.fork();
}

/** The empty snapshot, version 1. */
export function createModel(
  settings: ModelSettings,
  mesh: MeshConfig,
  networks: MeshNetworks,
  options: ModelOptions = {},
): Snapshot {
  const model = Model.empty(settings, mesh, networks, options);
  models.set(model.snapshot, model);
  return model.snapshot;
}

/** @param scopes that somebody has besides those of the namespaces that resources are of */
export function applyChanges(
  previous: Snapshot,
  { version, ...update }: Omit<MeshUpdate, 'eventTime'> & { readonly version?: number },
  scopes: Iterable<string> = [],
): ModelChange {
  const model = modelOf(previous);
  for (const id of new Set([...scopesOf(previous), ...scopes])) model.acquire(id);
  const step = model.apply({ ...update, eventTime: 0 }, version);
  models.set(step.snapshot, model);
  return step;
}

/** The snapshot of these resources and no others. */
export function replay(empty: Snapshot, resources: Iterable<AnyResource>, version?: number): Snapshot {
  const changes = [...resources].map((after) => ({ key: keyOf(after), before: undefined, after }));
  return applyChanges(empty, { changes, ...(version === undefined ? {} : { version }) }).snapshot;
}

/** Ids of all scopes that proxies could have in the namespaces that resources are of. */
function scopesOf(snapshot: Snapshot): ReadonlySet<string> {
  const namespaces = new Set<string>();
  for (const kind of ALL_KINDS)
    for (const { meta } of snapshot.resources(kind).values()) namespaces.add(meta.namespace);
  namespaces.delete('');
  const ids = new Set([...namespaces].map(defaultScopeId));
  for (const { meta, content } of snapshot.resources('Sidecar').values()) {
    const labels = content.workloadSelector?.labels ?? {};
    for (const namespace of namespaces) {
      if (meta.namespace === namespace || meta.namespace === snapshot.settings.rootNamespace)
        ids.add(snapshot.scopeOf(namespace, labels).id);
    }
  }
  return ids;
}
