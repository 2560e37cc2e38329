/** Resources from plain data through the real schemas, and meshes of them. For tests. */

import { workloadLabels } from '../../resources/kinds/aliases.ts';
import { SCHEMAS } from '../../resources/kinds/schemas.ts';
import {
  type AnyResource,
  type Kind,
  keyOf,
  type ResourceChange,
  type ResourceKey,
} from '../../resources/kinds/types.ts';
import {
  defaultMeshConfig,
  defaultMeshNetworks,
  type MeshConfig,
  type MeshNetworks,
} from '../../resources/mesh-config.ts';
import type { ModelChange } from '../model.ts';
import type { ModelSettings, Snapshot } from '../types/types.ts';
import { DEFAULT_SETTINGS } from './settings.ts';
import { applyChanges, createModel } from './steps.ts';

export interface MetaFields {
  readonly created?: number;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly cluster?: string;
  readonly unhealthy?: true;
  readonly unhealthyEndpoints?: readonly number[];
  readonly ofMachines?: true;
}

/** A resource of `name` as `namespace/name`; content as in YAML (the `spec` of mesh kinds). */
export function resource(kind: Kind, path: string, content: unknown = {}, fields: MetaFields = {}): AnyResource {
  const [namespace = '', name = ''] = path.split('/');
  const meta = {
    name,
    namespace,
    labels: workloadLabels(fields.labels ?? {}),
    annotations: workloadLabels(fields.annotations ?? {}),
    ...(fields.created === undefined ? {} : { created: fields.created }),
    ...(fields.cluster === undefined ? {} : { cluster: fields.cluster }),
    ...(fields.unhealthy === undefined ? {} : { unhealthy: fields.unhealthy }),
    ...(fields.unhealthyEndpoints === undefined ? {} : { unhealthyEndpoints: fields.unhealthyEndpoints }),
    ...(fields.ofMachines === undefined ? {} : { ofMachines: fields.ofMachines }),
  };
  const parsed = SCHEMAS[kind].parse(content);
  const fingerprint = JSON.stringify([kind, meta, parsed]);
  return { kind, meta, content: parsed, origin: { source: 'test' }, fingerprint } as AnyResource;
}

export interface MeshOptions {
  readonly settings?: Partial<ModelSettings>;
  readonly mesh?: Partial<MeshConfig>;
  readonly networks?: MeshNetworks;
}

export function emptyMesh({ settings = {}, mesh = {}, networks }: MeshOptions = {}): Snapshot {
  const config = { ...defaultMeshConfig(), ...mesh };
  return createModel({ ...DEFAULT_SETTINGS, ...settings }, config, networks ?? defaultMeshNetworks());
}

/** Sets resources (and removes keys) in one change. */
export function step(
  snapshot: Snapshot,
  sets: readonly AnyResource[],
  deletes: readonly ResourceKey[] = [],
): ModelChange {
  const changes: ResourceChange[] = sets.map((after) => ({ key: keyOf(after), before: undefined, after }));
  for (const key of deletes) changes.push({ key, before: undefined, after: undefined });
  return applyChanges(snapshot, { changes });
}

export function meshOf(resources: readonly AnyResource[], options: MeshOptions = {}): Snapshot {
  return step(emptyMesh(options), resources).snapshot;
}

/** A Service with a cluster IP and an HTTP port 80. */
export function service(path: string, spec: Record<string, unknown> = {}, fields: MetaFields = {}): AnyResource {
  const ports = [{ name: 'http', port: 80 }];
  return resource('Service', path, { spec: { clusterIP: '10.96.0.1', ports, ...spec } }, fields);
}

/** Endpoints of port `http` 8080 at addresses, each backed by a pod when written `ip=pod`. */
export function endpoints(path: string, addresses: readonly string[], notReady: readonly string[] = []): AnyResource {
  const written = (text: string) => {
    const [ip, pod] = text.split('=');
    return pod === undefined ? { ip } : { ip, targetRef: { kind: 'Pod', name: pod } };
  };
  const ports = [{ name: 'http', port: 8080 }];
  const subset = { addresses: addresses.map(written), notReadyAddresses: notReady.map(written), ports };
  return resource('Endpoints', path, { subsets: [subset] });
}

export function pod(
  path: string,
  ip: string,
  fields: MetaFields = {},
  spec: Record<string, unknown> = {},
): AnyResource {
  return resource('Pod', path, { spec, status: { phase: 'Running', podIP: ip } }, fields);
}

/** `reviews.default` → its full name. */
export function fqdn(short: string): string {
  return `${short}.svc.cluster.local`;
}
