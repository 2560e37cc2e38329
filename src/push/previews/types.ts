/**
 * What a preview asks and answers: plain data that crosses the thread border. A preview generates views of proxies from
 * the mesh as it is, and from the mesh as a change would make it, and reports what differs. Nothing of it is published.
 */
import type { XdsType } from '../../core/xds-types.ts';
import type { GeneratedType, Placement, Unit, View } from '../../generate/index.ts';
import type { MeshDelta } from '../../model/index.ts';

/** A part of proxies before and after the change; undefined: they have no such part then. */
export interface PreviewedView {
  readonly before: View | undefined;
  readonly after: View | undefined;
  /** What the change touches of it. */
  readonly units: Readonly<Partial<Record<GeneratedType, 'all' | readonly Unit[]>>>;
  /** The placements of the proxies, before and after the change. */
  readonly placements: readonly (readonly [before: Placement, after: Placement])[];
}

export interface PreviewTask {
  /** From the mesh as it is to the mesh as the change would make it. */
  readonly delta: MeshDelta;
  readonly views: readonly PreviewedView[];
  /** Views that are not compared after this time are left out, ms. */
  readonly budgetMs: number;
}

/** A field of a resource that differs. A value that is absent did not exist, or would not exist any more. */
export interface FieldChange {
  /** As in Envoy's JSON, such as `virtual_hosts[web:80].routes[0].route.timeout`; empty for the whole resource. */
  readonly path: string;
  readonly before?: unknown;
  readonly after?: unknown;
}

/** A resource that is added (no `before`), changed, or removed (no `after`). */
export interface ChangedResource {
  readonly type: XdsType;
  readonly name: string;
  /** Bytes of the message. */
  readonly before?: number;
  readonly after?: number;
  /** Absent where they were not compared, because too many resources differ. */
  readonly fields?: readonly FieldChange[];
  /** Number of further fields that differ. */
  readonly moreFields?: number;
}

/** The changed resources of a view, as indexes of `PreviewResult.resources`. */
export interface ViewOutcome {
  /** False where there was no time to compare it. */
  readonly compared: boolean;
  /** In all placements. */
  readonly common: readonly number[];
  /** In each placement, besides those in all. */
  readonly placed: readonly (readonly number[])[];
  /** Units that could not be generated because of the change, one line each. */
  readonly failures: readonly string[];
}

export interface PreviewResult {
  readonly resources: readonly ChangedResource[];
  /** In the order of the task. */
  readonly views: readonly ViewOutcome[];
}
