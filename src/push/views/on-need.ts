/**
 * What a view generates when proxies need it: clusters and virtual hosts of a large mesh, of which its proxies use few.
 * Most jobs for these are steps: they generate what no proxy has yet, and nothing that has changed.
 */
import type { GeneratedType, Unit, View } from '../../generate/index.ts';
import type { Snapshot } from '../../model/index.ts';
import type { GeneratedJob } from '../jobs/index.ts';
import type { JobAnswer, LaterSelection } from '../protocol.ts';
import type { JobChanges, Units } from './job-changes.ts';
import { type ChangedHosts, LATER, type LaterClustersOptions, LaterUnits } from './later-clusters.ts';
import { type HostSelection, HostsOnAsk } from './later-hosts.ts';
import { LedClusters } from './led-clusters.ts';
import { addUnits, type SelectedUnits } from './selected-units.ts';

/** What a job for a selection of units does without. */
export interface Needed {
  readonly later: LaterSelection | undefined;
  /** Undefined: the job is for no virtual hosts. */
  readonly hosts: HostSelection | undefined;
}

/** The state of a view when it takes a job. */
interface TakingView {
  /** Types that were generated. */
  readonly generated: ReadonlySet<GeneratedType>;
  /** Whether no proxy has a configuration. */
  readonly isNew: () => boolean;
  /** Whether no proxy moves to the view from another configuration. */
  readonly isFirst: () => boolean;
  readonly isStep: boolean;
}

export class OnNeed {
  readonly clusters: LaterUnits;
  readonly hosts: HostsOnAsk;
  readonly #view: View;
  readonly #snapshot: () => Snapshot;
  readonly #above: number;
  readonly #led: LedClusters;

  /** @param isHeld whether a proxy holds a name, or waits for it */
  constructor(
    view: View,
    snapshot: () => Snapshot,
    { when = LATER, leadsTo, onWanted }: LaterClustersOptions,
    isHeld: (name: string) => boolean,
  ) {
    this.#view = view;
    this.#snapshot = snapshot;
    this.#above = when.above;
    this.clusters = new LaterUnits(when, onWanted ?? (() => {}));
    this.hosts = new HostsOnAsk(onWanted ?? (() => {}), isHeld);
    this.#led = new LedClusters(this.clusters, leadsTo);
  }

  /** Whether something is to be generated. */
  get areWanted(): boolean {
    return this.clusters.areWanted || this.hosts.areWanted;
  }

  /** The next job is submitted. */
  tryAgain(): void {
    this.clusters.tryAgain();
    this.hosts.tryAgain();
  }

  /** A job failed: nobody waits until it is tried again. */
  fail(error: unknown): void {
    this.clusters.fail(error);
    this.hosts.fail(error);
  }

  /** A session has left the view. @param isLast nothing is generated for nobody */
  left(session: object, isLast: boolean): void {
    this.hosts.left(session);
    this.clusters.left(session);
    if (!isLast) return;
    this.clusters.release();
    this.hosts.release();
  }

  /** See `LaterUnits.classify`. */
  classify(changed: ChangedHosts): void {
    this.clusters.classify(changed.of(this.#view), this.#view, this.#snapshot);
  }

  /** See `LaterUnits.classifyAll`. */
  classifyAll(): void {
    this.clusters.classifyAll(this.#view, this.#snapshot);
  }

  /** Adds what is wanted to the units of a job. */
  take(selection: SelectedUnits, { generated, isNew, isFirst, isStep }: TakingView): Needed {
    const { clusters, hosts } = this;
    if ((isStep || generated.has('cds')) && clusters.wanted.size > 0) addUnits(selection, 'cds', clusters.wanted);
    if (generated.has('vhds')) {
      if (hosts.areWanted) addUnits(selection, 'vhds', hosts.units);
    } else if (selection.has('vhds') && isFirst()) hosts.begin(this.#view, this.#snapshot(), this.#above);
    const ofHosts = selection.get('vhds');
    return {
      later: selection.get('cds') === 'all' ? this.#laterClusters(!generated.has('cds') && isNew()) : undefined,
      hosts: ofHosts && hosts.selection({ of: ofHosts, isStep }),
    };
  }

  /** The clusters that a job for all does without: none where proxies have a configuration until the first is complete. */
  #laterClusters(isNew: boolean): LaterSelection | undefined {
    if (isNew) return this.clusters.begin(this.#view, this.#snapshot());
    const { unwanted } = this.clusters;
    return unwanted.size === 0 ? undefined : [...unwanted];
  }

  /** See `LedClusters.needs`. */
  needsClusters(
    answer: JobAnswer,
    changes: () => JobChanges,
    units: Units,
    generated: ReadonlySet<GeneratedType>,
  ): boolean {
    return !this.clusters.isEmpty && this.#led.needs(answer, changes(), units, generated);
  }

  /** A job was committed. @param failures units that could not be generated, and keep their state */
  committed(
    { answer }: Pick<GeneratedJob, 'answer'>,
    hosts: HostSelection | undefined,
    failures: readonly { readonly type: GeneratedType; readonly unit: Unit }[],
  ): void {
    const units = [...answer.units, ...failures].flatMap(({ type, unit }) => (type === 'cds' ? [unit] : []));
    this.clusters.generated(new Set(units));
    if (hosts !== undefined) this.hosts.generated(hosts, answer);
    this.#led.committed();
  }
}
