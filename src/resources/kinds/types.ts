/**
 * A resource: its kind, the metadata that is read, and its typed content. The content types come from the schemas
 * (`schemas.ts`), one per kind.
 */
import type { Kind, SubstitutedKind } from './kinds.ts';
import type { ContentOf } from './schemas.ts';

export {
  ALL_KINDS,
  CLUSTER_KINDS,
  CORE_KINDS,
  type CoreKind,
  DERIVED_KINDS,
  GUARDED_KINDS,
  INGRESS_KINDS,
  type IngressKind,
  type Kind,
  MESH_KINDS,
  type MeshKind,
  POLICY_KINDS,
  type PolicyKind,
  SECURITY_KINDS,
  SERVICE_API_KINDS,
  type SecurityKind,
  type ServiceApiKind,
  SUBSTITUTED_KINDS,
  type SubstitutedKind,
} from './kinds.ts';

/** The metadata that is read. Cluster-scoped kinds have namespace `''`. */
export interface ResourceMeta {
  readonly name: string;
  readonly namespace: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  /**
   * Milliseconds since the epoch; absent for files without it. If the oldest document takes precedence, absent values
   * come first.
   */
  readonly created?: number;
  /** The number of the version of the content (Kubernetes ObjectMeta), of {@link SERVICE_API_KINDS} only. */
  readonly generation?: number;
  /**
   * Set on a WorkloadEntry with health checks that is not reported as healthy (`status.conditions`, see
   * `workload-health.ts`).
   */
  readonly unhealthy?: true;
  /**
   * Set on a ServiceEntry by a source that knows the health of workloads: indexes of the endpoints that are not to be
   * used. They stay endpoints, so that what selects these workloads continues to apply to them.
   */
  readonly unhealthyEndpoints?: readonly number[];
  /**
   * Set on a ServiceEntry of a registry of machines, which others may write than those who write the documents of its
   * namespace: an endpoint at the address of a Pod is not used.
   */
  readonly ofMachines?: true;
  /** The cluster of a resource of {@link CLUSTER_KINDS}; absent: the program's own (`--clusterID`). */
  readonly cluster?: string;
  /**
   * Present on a substitute for a refused document. `covers`: it applies to what the document's selector covers;
   * `overrides`: the selector could not be read, so that it also overrides narrower policies of the namespace.
   */
  readonly substitute?: 'covers' | 'overrides';
}

/** Where a resource came from, for messages. Never read by generation. */
export interface ResourceOrigin {
  /** Id of the source, such as `directory`. */
  readonly source: string;
  readonly file?: string;
  /** 1-based line of the document's first line. */
  readonly line?: number;
  /**
   * From the object of the source (Kubernetes ObjectMeta): they distinguish versions and objects with the same name.
   */
  readonly uid?: string;
  readonly generation?: number;
  readonly resourceVersion?: string;
}

/** A validated resource: plain, immutable, cloneable data. */
export interface Resource<K extends Kind = Kind> {
  readonly kind: K;
  readonly meta: ResourceMeta;
  readonly content: ContentOf<K>;
  readonly origin: ResourceOrigin;
  /**
   * Hash of everything that generation can read of it (kind, meta, content; not the origin): equal fingerprints mean
   * that nothing changed. Computed by the schema layer.
   */
  readonly fingerprint: string;
  /**
   * Parts of the document that were left out or have no effect. Never read by generation, not part of the fingerprint.
   */
  readonly warnings?: readonly ResourceWarning[];
}

/** A part of a document that was left out or has no effect. */
export interface ResourceWarning {
  /** Path of the field, such as `spec.http[0].retriess`. */
  readonly field: string;
  readonly message: string;
  /** 1-based, as far as the source knows lines. */
  readonly line?: number;
}

/** Distributes over kinds, so that a `switch (resource.kind)` narrows `content`. */
export type AnyResource = { [K in Kind]: Resource<K> }[Kind];

/** `Kind/namespace/name`, followed by `/cluster` for resources of other clusters: the key of a resource everywhere. */
export type ResourceKey = string;

/** @param cluster for resources of {@link CLUSTER_KINDS}; absent: the program's own */
export function resourceKey(kind: Kind, namespace: string, name: string, cluster?: string): ResourceKey {
  const key = `${kind}/${namespace}/${name}`;
  return cluster === undefined ? key : `${key}/${cluster}`;
}

export function keyOf({ kind, meta }: { readonly kind: Kind; readonly meta: ResourceMeta }): ResourceKey {
  return resourceKey(kind, meta.namespace, meta.name, meta.cluster);
}

/**
 * A change that a source sends to the store. `resolved` reports that the document of an earlier problem is valid now or
 * no longer exists; a `set` or `delete` of a key ends that key's problem as well. `eventTime` is when the change was
 * noticed: monotonic ms, of the `performance.now()` clock.
 */
export type ResourceEvent =
  | ListedEvent
  | { readonly type: 'delete'; readonly key: ResourceKey; readonly eventTime: number }
  | { readonly type: 'resolved'; readonly id: string; readonly eventTime: number };

/** The newer of two events with one ID applies: a resource's key, else the ID of the problem. */
export function eventId(event: ResourceEvent): string {
  if (event.type === 'set') return keyOf(event.resource);
  if (event.type === 'delete') return event.key;
  return event.type === 'invalid' ? event.problem.id : event.id;
}

/** An item of a source's list: a resource, or a document that is refused. */
export type ListedEvent =
  | { readonly type: 'set'; readonly resource: AnyResource; readonly eventTime: number }
  | { readonly type: 'invalid'; readonly problem: ResourceProblem; readonly eventTime: number };

/**
 * All resources of a source, or all of some kinds or of a namespace; never an incomplete list. Resources that the
 * source had before and that are missing here were deleted at `eventTime`, monotonic ms.
 */
export interface ResourceList {
  readonly events: readonly ListedEvent[];
  readonly eventTime: number;
  /** Kinds that were listed; absent: all. With this or `namespace`, all problems of the source have keys. */
  readonly kinds?: readonly Kind[];
  /** The namespace that was listed; absent: all. */
  readonly namespace?: string;
}

/** A document that was refused. Its last good version stays in force. */
export interface ResourceProblem {
  /**
   * Identity of the refused document within its source: the resource's key when it could be read, else `file#index`.
   */
  readonly id: string;
  /** Known when kind, namespace and name could be read. */
  readonly key?: ResourceKey;
  readonly origin: ResourceOrigin;
  /** Path of the field, such as `spec.http[0].route`; empty for the whole document. */
  readonly field: string;
  /** What was expected, one line. */
  readonly message: string;
  /**
   * Set if the document is, or may be, of a guarded kind: the resources to put in force if no good version of it is
   * known. Empty if the document only observes (action AUDIT), or its absence widens no access.
   */
  readonly substitutes?: readonly Substitute[];
  /**
   * Set if the key cannot be determined: resources that the file no longer has and that stay in force, because the
   * document may be one of them.
   */
  readonly kept?: readonly ResourceKey[];
}

/** The strictest policy that a refused document can have been, as far as it could be read. */
export interface Substitute {
  readonly kind: SubstitutedKind;
  /** Undefined if it cannot be determined: the whole mesh is covered then. */
  readonly namespace?: string;
  readonly name?: string;
  readonly content: ContentOf<SubstitutedKind>;
  /** False if the selector could not be read: the whole namespace is covered then. */
  readonly selectorKnown: boolean;
}

/** A change of a resource in force, or of a resource in the model. `undefined` means that it did not exist. */
export interface ResourceChange {
  readonly key: ResourceKey;
  readonly before: AnyResource | undefined;
  readonly after: AnyResource | undefined;
}
