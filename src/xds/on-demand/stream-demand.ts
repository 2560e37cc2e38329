/** What a stream asks for, as the server of streams uses it. */
import type { XdsType } from '../../core/xds-types.ts';
import type { OnDemand } from '../../generate/index.ts';
import type { DemandStatus, LaterClusters, LaterHosts, Parts } from '../../push/index.ts';
import type { NameSet } from '../protocol/index.ts';
import type { AnswerTimes } from './answer-times.ts';
import type { HeldContent } from './held-content.ts';

/** Who asks, and when. */
export interface Asking {
  readonly mode: OnDemand | undefined;
  readonly workload: string;
  /** Unix ms. */
  readonly at: number;
  /** The same, monotonic ms. */
  readonly since: number;
}

/** What a proxy gets beside what it asks for, and what its content lacks for the moment. */
export interface Given {
  /** Hosts that it gets without asking. */
  readonly named?: readonly string[];
  readonly laterClusters?: LaterClusters | undefined;
  readonly laterHosts?: LaterHosts | undefined;
}

/** What a stream asks for, whatever its variant. */
export interface StreamDemand<Request> {
  /** The names of a type that are kept for the proxy. @param subscribed those that it subscribes to */
  namesOf(type: XdsType, subscribed: NameSet): NameSet;
  /**
   * The names of what the proxy has or waits for, and of what leads to it; the same object while nothing changes.
   * Undefined: everything.
   */
  readonly held: readonly NameSet[] | undefined;
  /** @param wake called when there is more for the proxy than it has asked for */
  begin(wake: () => void): void;
  /** The stream has ended. */
  end(): void;
  receive(type: XdsType, request: Request, asking: Asking): Request;
  parts(content: Parts, mode: OnDemand | undefined, given?: Given): Parts;
  /** The names of hosts that the answer to a request needs to be generated; undefined: all that there are. */
  hostsFor(type: XdsType, request: Request, content: Parts, named: readonly string[]): Iterable<string> | undefined;
  /** The names that a request asks for. */
  askedIn(request: Request): Iterable<string>;
  /** The clusters that the answer to a request needs, and all others of this proxy; undefined: all that there are. */
  clustersFor(type: XdsType, request: Request, content: Parts): Iterable<string> | undefined;
  /** Gives the proxy the clusters that it would ask for, because it cannot ask now. */
  giveAskable(content: Parts): void;
  /** How long it waits for what it asks for. */
  readonly answers: AnswerTimes;
  /** Answers were written. @param now monotonic ms */
  written(now: number): void;
  /** Virtual hosts that it holds; 0 if it gets everything. */
  readonly hosts: number;
  readonly isOverLimit: boolean;
  /** What it has asked for, in numbers; undefined for a proxy that does not have to ask. */
  status(content: Parts, mode: OnDemand | undefined): DemandStatus | undefined;
  /** What it holds and why. @param parts the last result of {@link parts} */
  explain(content: Parts, parts: Parts, mode: OnDemand | undefined): HeldContent | undefined;
}
