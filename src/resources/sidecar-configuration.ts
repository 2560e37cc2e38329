/**
 * The label or annotation `sidecar.mesh.io/configuration` of a Namespace: what its sidecars get of the mesh. Pods have
 * the same one, which injection passes to the proxy (`src/webhooks/injection/annotations`).
 */
import { SIDECAR_CONFIGURATIONS, type SidecarConfiguration } from '../core/proxy.ts';
import { meshKey } from './kinds/aliases.ts';
import type { Kind, ResourceMeta } from './kinds/types.ts';
import { shown, type ValidationError } from './parsing/issues.ts';

/** Of a Namespace or Pod; of both, the label takes precedence. */
export const SIDECAR_CONFIGURATION = 'sidecar.mesh.io/configuration';

interface Written {
  readonly labels: Readonly<Record<string, string>> | undefined;
  readonly annotations: Readonly<Record<string, string>> | undefined;
}

/** The configuration that a Namespace states; undefined: that of the mesh. An unknown one is everything. */
export function sidecarConfigurationOf({
  labels,
  annotations,
}: Pick<ResourceMeta, 'labels' | 'annotations'>): SidecarConfiguration | undefined {
  const value = labels[SIDECAR_CONFIGURATION] ?? annotations[SIDECAR_CONFIGURATION];
  return value === undefined ? undefined : (SIDECAR_CONFIGURATIONS.find((each) => each === value) ?? 'all');
}

/** What is wrong with it, as it is written. The Namespace stays in force, with everything for its sidecars. */
export function sidecarConfigurationErrors(kind: Kind, written: Written): readonly ValidationError[] {
  if (kind !== 'Namespace') return [];
  const expected = `expected one of ${SIDECAR_CONFIGURATIONS.join(', ')}`;
  return (['labels', 'annotations'] as const).flatMap((field) =>
    Object.entries(written[field] ?? {}).flatMap(([key, value]): readonly ValidationError[] => {
      if (meshKey(key) !== SIDECAR_CONFIGURATION || SIDECAR_CONFIGURATIONS.some((each) => each === value)) return [];
      const message = `${expected}, got ${shown(value)}: its sidecars get everything`;
      return [{ path: ['metadata', field, key], message, stored: 'in force' }];
    }),
  );
}
