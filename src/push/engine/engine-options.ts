/** What the push engine is made with, what it is given, and what it tells of itself. */
import type { XdsType } from '../../generate/types.ts';
import type { ChangeSet, MeshDelta, Snapshot } from '../../model/types.ts';
import type { ResourceChange } from '../../resources/types.ts';
import type { Generator } from '../jobs/index.ts';
import type { FailingView, PushReason } from '../types.ts';
import type { ScopeHolder } from './view-table.ts';

/** What the engine tells the world of itself; times in milliseconds. */
export interface EngineObserver {
  triggered(reason: PushReason): void;
  converged(milliseconds: number): void;
  queueWaited(milliseconds: number): void;
  stage(stage: 'views' | 'generate' | 'intern', milliseconds: number): void;
  /** Time spent on making resources of a type. */
  generated(type: XdsType, milliseconds: number): void;
  /** A change is on its way to a proxy. */
  pushBegan(): void;
  /** It was acknowledged, after so long; undefined: the proxy needed nothing of it, or has gone. */
  pushEnded(connectionId: string, milliseconds: number | undefined): void;
  /**
   * Something about one view or proxy, or a resource of this type, could not be worked out; the last good version
   * stays.
   */
  failed(message: string, type?: XdsType): void;
  /** An attempt to generate these types of a view has failed; what its proxies have stays, and it is tried again. */
  viewFailed(failure: FailingView, types: readonly XdsType[]): void;
  /** A view was generated after so many failed attempts. */
  viewRecovered(view: string, failures: number): void;
}

export interface EngineOptions {
  readonly snapshot: Snapshot;
  /** The model that snapshots are of. */
  readonly scopes: ScopeHolder;
  readonly generator: Generator;
  /** CTL_PUSH_THROTTLE */
  readonly throttle: number;
  /** Monotonic milliseconds. */
  readonly now: () => number;
  /** Runs something after so many ms, unless it is cancelled. */
  readonly later: (ms: number, run: () => void) => { cancel(): void };
  /** 0 ≤ x < 1; spreads retries. */
  readonly random: () => number;
  readonly observer: EngineObserver;
}

/** A snapshot and how it came to be. */
export interface Publication {
  readonly snapshot: Snapshot;
  readonly changes: ChangeSet;
  /** The same for the replicas. */
  readonly delta: MeshDelta;
  /** The resource changes behind it. */
  readonly resources: readonly ResourceChange[];
  /** Monotonic ms of the first event in it. */
  readonly eventTime: number;
  readonly reasons: ReadonlySet<PushReason>;
}
