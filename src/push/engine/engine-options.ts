/** The options of the push engine, and what it reports. */
import type { XdsType } from '../../core/xds-types.ts';
import { GENERATED_TYPES } from '../../generate/index.ts';
import type { Snapshot } from '../../model/index.ts';
import type { GeneratedJob, Generator } from '../jobs/index.ts';
import type { PushReason } from '../push.ts';
import type { ConcernedNames, FailingView, LeadsTo, TrialResult, WithheldResource } from '../types.ts';
import type { LaterOptions } from '../views/index.ts';
import type { ScopeOwner } from './view-table.ts';

/** The events that the engine reports, for metrics and logs; times in milliseconds. */
export interface EngineObserver {
  triggered(reason: PushReason): void;
  converged(milliseconds: number): void;
  queueWaited(milliseconds: number): void;
  stage(stage: 'views' | 'generate' | 'intern', milliseconds: number): void;
  /** Time spent on generating resources of a type. */
  generated(type: XdsType, milliseconds: number): void;
  /** A change is on its way to a proxy; `eventTime` (monotonic) is that of its earliest event. */
  pushBegan(connectionId: string, eventTime: number): void;
  /** The change was acknowledged after this time; undefined if the proxy does not need it or has disconnected. */
  pushEnded(connectionId: string, milliseconds: number | undefined): void;
  /** An operation for one view or proxy, or a resource of this type, failed; the last good version stays in force. */
  failed(message: string, type?: XdsType): void;
  /** Labels of `failoverPriority` do not count for a service: its endpoints have too many values of them. */
  labelsIgnored(service: string, labels: readonly string[]): void;
  /** Generating these types of a view failed; its proxies keep their configuration, and the generation is retried. */
  viewFailed(failure: FailingView, types: readonly XdsType[]): void;
  /** A view was generated after this many failed attempts. */
  viewRecovered(view: string, failures: number): void;
  /** Changed resources were tried by canaries for this time. */
  tried(result: TrialResult, milliseconds: number): void;
  /** Canaries have rejected these resources, which are withheld from the proxies of the view from now on. */
  withheld(resources: readonly WithheldResource[], view: string): void;
}

/** Sizes of the engine's parts. `facts`: those that some view read. */
export type EngineStats = Readonly<Record<'queued' | 'underWay' | 'views' | 'interned' | 'facts', number>>;

export interface EngineOptions {
  readonly snapshot: Snapshot;
  /** The model that the snapshots are from. */
  readonly scopes: ScopeOwner;
  readonly generator: Generator;
  /** CTL_PUSH_THROTTLE */
  readonly throttle: number;
  /** CTL_PUSH_CANARY: views with more proxies try changes at a few of them first; left out: none does. */
  readonly canaryAbove?: number;
  /** In which views on demand clusters are generated when a proxy needs them; left out: in those of large meshes. */
  readonly laterClusters?: LaterOptions;
  /** Where resources lead proxies; left out: a change generates all clusters of its view. */
  readonly leadsTo?: LeadsTo;
  /** What changes concern of what proxies hold; left out: each change concerns all proxies of its view. */
  readonly concerned?: ConcernedNames;
  /** Monotonic milliseconds. */
  readonly now: () => number;
  /** Calls `run` after this many milliseconds, unless it is cancelled. */
  readonly later: (ms: number, run: () => void) => { cancel(): void };
  /** 0 ≤ x < 1; spreads retries. */
  readonly random: () => number;
  readonly observer: EngineObserver;
}

/** Reports the time that a job took. */
export function reportGeneration({ answer, milliseconds }: GeneratedJob, observer: EngineObserver): void {
  observer.stage('generate', milliseconds);
  for (const type of GENERATED_TYPES) {
    const took = answer.milliseconds[type];
    if (took !== undefined) observer.generated(type, took);
  }
}
