/**
 * The state of one live view: its units, the bundles built from them, and the units that still have to be generated.
 * Bundles of all types are replaced together, so that a stream never has listeners of one snapshot and clusters of
 * another. Proxies of a view may be in several placements: resources that depend on the placement are generated for
 * each of them, in the same jobs and committed with the rest.
 */
import type { XdsType } from '../../core/xds-types.ts';
import {
  endpointName,
  GENERATED_TYPES,
  type GeneratedType,
  type GenerationFinding,
  isClientView,
  type Placement,
  type Unit,
  type UnitSelection,
  type View,
} from '../../generate/index.ts';
import type { Snapshot } from '../../model/index.ts';
import { type GeneratedJob, type Lane, laneOf } from '../jobs/index.ts';
import type { GenerateJob, JobAnswer } from '../protocol.ts';
import { mergedPush, type Push } from '../push.ts';
import type { LaterClusters, LaterHosts, Names } from '../types.ts';
import { consequence, FilterVersions, nameOf } from './filter-versions.ts';
import {
  addedNames,
  applyEdits,
  applyUnits,
  type JobChanges,
  jobChanges,
  namesOf,
  noUnits,
  updatePlacedUnits,
} from './job-changes.ts';
import type { ChangedHosts, LaterClustersOptions } from './later-clusters.ts';
import { lendClusters } from './lent-clusters.ts';
import { OnNeed } from './on-need.ts';
import type { Member, PlacedView } from './placed-view.ts';
import { Placements } from './placements.ts';
import { addUnits, inOrder, type SelectedUnits } from './selected-units.ts';
import { UnitProblems } from './unit-problems.ts';
import { type Encoders, ViewBundles } from './view-bundles.ts';
import type { BuildFailure } from './view-endpoints.ts';
import type { CommitResult, Dirty, EndpointsResult, Taken } from './view-jobs.ts';
import { WithheldListeners } from './withheld-listeners.ts';

const NO_NAMES: ReadonlySet<string> = new Set();
const NO_PUSH: Push = { types: new Set(), version: 0, eventTime: 0, reasons: new Set() };

/** The view in one of its placements. */
type Placed<S extends Member> = PlacedView<S, ViewState<S>>;

export class ViewState<S extends Member> {
  readonly key: string;
  readonly view: View;
  readonly #placements: Placements<S, ViewState<S>>;
  /** True from the first commit on, for as long as the bundles may be served to new sessions. */
  built = false;
  inFlight = false;
  /** True after a failed job, until the next commit. */
  lastJobFailed = false;
  /**
   * Snapshot version of the last commit. While nothing is dirty or in flight, the view is at the engine's version.
   */
  committedVersion = 0;
  /** Snapshot version of the last commit without failing units. */
  completeVersion = 0;
  readonly #problems = new UnitProblems();
  /** Types that some proxy has requested: other types are not generated. */
  readonly #requested = new Set<GeneratedType>();
  /** Types that were generated. */
  readonly #generated = new Set<GeneratedType>();
  #dirty: Dirty | undefined;
  #taken: Taken<Placed<S>> | undefined;
  readonly #withheld = new WithheldListeners();
  readonly #units = noUnits();
  /** Units whose clusters depend on the placement. */
  readonly #placedUnits = new Set<Unit>();
  readonly #bundles: ViewBundles<Placed<S>>;
  readonly #snapshot: () => Snapshot;
  readonly #onNeed: OnNeed;
  /** Of the last answer, until it is committed or dropped. */
  #changes: { readonly made: GeneratedJob; readonly changes: JobChanges } | undefined;
  /** Undefined for a view without patches. */
  readonly #filters: FilterVersions | undefined;

  /** @param snapshot the current snapshot, from which jobs are generated */
  constructor(key: string, view: View, snapshot: () => Snapshot, later: LaterClustersOptions = {}) {
    this.#placements = new Placements<S, ViewState<S>>(this, () => this.#bundles.initial);
    this.#onNeed = new OnNeed(view, snapshot, later, (name) => this.#placements.isHeld(name));
    this.key = key;
    this.view = view;
    this.#snapshot = snapshot;
    this.#filters = 'patches' in view && view.patches !== undefined ? new FilterVersions(view) : undefined;
    this.#bundles = new ViewBundles(key, view);
  }

  /** Sessions that have this view, or are moving to it. */
  get sessions(): ReadonlySet<S> {
    return this.#placements.sessions;
  }

  /** Those whose proxies have it or move to it. */
  lanes(): Iterable<Lane> {
    return Array.from(this.#placements.callers(), (caller) => laneOf(caller, this.view.namespace));
  }

  /** The view in a placement, which is created when it is new. */
  ensurePlacement(placement: Placement): Placed<S> {
    return this.#placements.ensure(placement);
  }

  /** The view in a placement, if it has that. */
  findPlacement(placement: Placement): Placed<S> | undefined {
    return this.#placements.find(placement);
  }

  /** The view in each of its placements. */
  placements(): Iterable<Placed<S>> {
    return this.#placements.all();
  }

  /** Removes an empty placement. False when the view has none left. */
  removePlacement(placed: Placed<S>): boolean {
    this.#placements.remove(placed);
    return this.#placements.size > 0;
  }

  /** Adds a session to a placement; does nothing when it is there already. */
  enter(placed: Placed<S>, session: S): void {
    this.#placements.enter(placed, session);
  }

  /**
   * Removes a session from a placement; false when it was not there. A session that moves is in two placements for a
   * time.
   */
  leave(placed: Placed<S>, session: S): boolean {
    if (!this.#placements.leave(placed, session)) return false;
    const { sessions } = this.#placements;
    if (!sessions.has(session)) this.#onNeed.left(session, sessions.size === 0);
    return true;
  }

  /** See `HostsOnAsk.held`. */
  held(session: S, names: readonly Names[] | undefined): void {
    this.#onNeed.hosts.held(session, names);
  }

  /** True when no unit failed to be generated. */
  get isComplete(): boolean {
    return this.#problems.noneFails;
  }

  get isDirty(): boolean {
    return this.#dirty !== undefined || this.#onNeed.areWanted;
  }

  /** Undefined when all clusters are generated. */
  get later(): LaterClusters | undefined {
    const { clusters } = this.#onNeed;
    return clusters.isEmpty ? undefined : clusters;
  }

  /** Undefined when all virtual hosts are generated. */
  get laterHosts(): LaterHosts | undefined {
    const { hosts } = this.#onNeed;
    return hosts.isOn ? hosts : undefined;
  }

  /** Whether the running job is only for {@link later} and {@link laterHosts}: no proxy has what it generates. */
  get isCompleting(): boolean {
    return this.inFlight && this.#taken?.isStep === true;
  }

  /** Types with dirty units. */
  dirtyTypes(): readonly GeneratedType[] {
    return [...(this.#dirty?.units.keys() ?? [])];
  }

  findings(): readonly GenerationFinding[] {
    return this.#problems.findings();
  }

  /** The unit that has a resource of this name, in any placement. */
  unitOf(type: GeneratedType, name: string): Unit | undefined {
    const placed = type === 'cds' ? Array.from(this.#placements.all(), ({ clusters }) => clusters) : [];
    for (const units of [this.#units[type], ...placed])
      for (const [unit, resources] of units) if (resources.some((each) => each.name === name)) return unit;
    return undefined;
  }

  /** A proxy requests these types: types that were not requested before become dirty. */
  request(types: Iterable<GeneratedType>, push: Push): void {
    for (const type of types) {
      if (this.#requested.has(type)) continue;
      this.#requested.add(type);
      this.markDirty({ [type]: 'all' }, push);
    }
  }

  /** Whether some proxy has asked for the type, so that it was generated. Endpoints are made with clusters. */
  hasGenerated(type: XdsType): boolean {
    return this.#generated.has(type === 'eds' ? 'cds' : type);
  }

  /** Whether the bundles of these types may be served to new sessions. */
  serves(types: ReadonlySet<GeneratedType>): boolean {
    return types.size === 0 || (this.built && types.isSubsetOf(this.#generated));
  }

  /**
   * Gives a new placement its clusters and endpoints: at once if no cluster depends on the placement, otherwise with
   * the next job. Returns failures. While a job runs this waits for its commit, because a job covers exactly the
   * placements that existed when it was taken.
   */
  beginPlacement(placed: Placed<S>, snapshot: Snapshot, encoders: Encoders, push: Push): readonly BuildFailure[] {
    if (placed.initialized || this.inFlight || !this.built || !this.#generated.has('cds')) return [];
    if (this.#placedUnits.size > 0) {
      this.markDirty({ cds: this.#placedUnits }, push);
      return [];
    }
    const failures: BuildFailure[] = [];
    this.#bundles.begin(placed, this.#units.cds, { snapshot, encoders, failures });
    return failures;
  }

  /** Marks units to be generated again; types that are not requested are skipped. */
  markDirty(selection: UnitSelection, push: Push): void {
    if (!GENERATED_TYPES.some((type) => selection[type] !== undefined && this.#requested.has(type))) return;
    this.#dirty ??= { units: new Map(), push };
    if (this.#dirty.push !== push) this.#dirty.push = mergedPush(push, this.#dirty.push);
    for (const type of GENERATED_TYPES) {
      const units = selection[type];
      if (units !== undefined && this.#requested.has(type)) addUnits(this.#dirty.units, type, units);
    }
    const { units } = this.#withheld;
    if (selection.rds !== undefined && units.size > 0) addUnits(this.#dirty.units, 'lds', units);
  }

  /** A job is submitted: the view is in flight until {@link commit}, {@link postpone} or {@link abandon}. */
  begin(): void {
    this.inFlight = true;
    this.#onNeed.tryAgain();
  }

  /** Called before a proxy moves from the other view to this one. */
  inherit(other: ViewState<S>): void {
    if (!this.built) this.#filters?.inherit(other.#filters, this.#placements.sessions.size > 0);
  }

  /**
   * Takes the job when its turn has come, with everything that is dirty by then: a job generates at least the changes
   * of its snapshot. When it is taken again (a worker crashed), it includes what became dirty in the meantime.
   */
  takeJob(): GenerateJob {
    this.#returnJob();
    const placed = [...this.#placements.all()];
    this.#onNeed.classifyAll();
    const isStep = this.#dirty === undefined && this.#onNeed.areWanted;
    const dirty = this.#dirty;
    this.#dirty = undefined;
    const selection: SelectedUnits = new Map(dirty?.units);
    // New placements have none of these yet.
    if (this.#placedUnits.size > 0 && placed.some(({ initialized }) => !initialized) && this.#requested.has('cds'))
      addUnits(selection, 'cds', this.#placedUnits);
    const { later, hosts } = this.#onNeed.take(selection, {
      generated: this.#generated,
      isNew: () => this.#everySession((views) => views.length === 0),
      isFirst: () => this.#everySession((views) => views.length === 0 || placed.some((each) => views.includes(each))),
      isStep,
    });
    this.#taken = { dirty, placed, isStep, hosts };
    const units = inOrder(selection);
    const former = this.#filters?.take(this.#snapshot(), units) ?? [];
    const placements = placed.map(({ placement }) => placement);
    const onNeed = { ...(later && { later }), ...(hosts?.names && { hosts: hosts.names }) };
    return { viewKey: this.key, view: this.view, units, placements, ...onNeed, ...(former.length > 0 && { former }) };
  }

  #everySession(is: (views: readonly unknown[]) => boolean): boolean {
    return [...this.#placements.sessions].every(({ views = [] }) => is(views));
  }

  /** See `LaterUnits.classify`. */
  classify(changed: ChangedHosts): void {
    this.#onNeed.classify(changed);
  }

  /** See `LedClusters`; if so, the job is to be postponed. */
  needsClusters(made: GeneratedJob, encoders: Encoders): boolean {
    if (this.isCompleting || !this.built) return false;
    const changes = (): JobChanges => this.#changesOf(made, encoders);
    return this.#onNeed.needsClusters(made.answer, changes, this.#units, this.#generated);
  }

  #changesOf(made: GeneratedJob, { interner }: Encoders): JobChanges {
    const { made: known, changes } = this.#changes ?? {};
    if (changes !== undefined && known === made) return changes;
    const clusters = (this.#taken?.placed ?? []).map((each) => each.clusters);
    const job = { ...made, answer: this.#withKept(made.answer) };
    const found = jobChanges(job, this.#units, clusters, interner);
    this.#changes = { made, changes: found };
    return found;
  }

  #returnJob(): void {
    const dirty = this.#taken?.dirty;
    this.#taken = undefined;
    if (dirty !== undefined) this.markDirty(Object.fromEntries(dirty.units), dirty.push);
  }

  /** The job failed: the view keeps its bundles, and the job's units are dirty again. */
  abandon(error: unknown): void {
    this.#onNeed.fail(error);
    this.postpone();
    this.lastJobFailed = true;
    this.built = this.committedVersion > 0;
  }

  /**
   * The job did not generate anything, because its snapshot did not have the view's scope or the job is no longer
   * needed: its units are dirty again.
   */
  postpone(): void {
    this.inFlight = false;
    this.#returnJob();
  }

  /**
   * Takes over a job's results: units, bundles, and the endpoints of its clusters. Throws before anything is changed.
   */
  commit(made: GeneratedJob, snapshot: Snapshot, encoders: Encoders): CommitResult<Placed<S>> {
    const job = { ...made, answer: this.#withKept(made.answer) };
    const { dirty, placed = [], hosts } = this.#taken ?? {};
    const { units, placed: edits, failures, withheld } = this.#changesOf(made, encoders);
    this.#changes = undefined;
    const lines = failures.map((failure): BuildFailure => {
      const { type, unit, message } = failure;
      return { type, message: `${type} ${unit} of ${this.key}: ${message}${consequence(failure)}` };
    });
    const ofPlaced = new Map(placed.map((each, index) => [each, edits[index] ?? new Map()]));
    const kept = failures.filter(({ misfits }) => misfits === undefined);
    for (const { type, unit } of kept) if (type === 'cds') lendClusters(unit, ofPlaced);
    const complete = job.answer.complete.includes('cds') || this.#generated.has('cds');
    const placements = this.#placements.all();
    const { changed, apply } = this.#bundles.next(
      { units: this.#units, edits: units, placements, placed: ofPlaced, complete },
      { snapshot, encoders, failures: lines },
    );
    const keptNames = new Set(kept.map(nameOf));
    const first = {
      cds: namesOf([units.cds, ...edits], this.#onNeed.clusters.units),
      vhds: hosts === undefined ? [] : addedNames(this.#units.vhds, units.vhds, hosts.units),
    };
    // From here on, no errors are thrown.
    apply();
    applyUnits(this.#units, units);
    for (const [each, ofEach] of ofPlaced) applyEdits(each.clusters, ofEach);
    updatePlacedUnits(this.#placedUnits, job, kept);
    this.#filters?.commit(
      made.answer,
      (type, unit) => keptNames.has(nameOf({ type, unit })),
      (type, unit) => this.#has(type, unit),
    );
    this.#withheld.update(job.answer, withheld);
    this.#problems.updateFailing(job.answer, failures);
    this.#problems.updateFindings(job.answer, keptNames);
    // Changes that came while the job was running are not in a step.
    const hasAll = !this.isCompleting || this.#dirty === undefined;
    if (hasAll && this.isComplete) this.completeVersion = job.version;
    this.built = true;
    for (const type of job.answer.complete) this.#generated.add(type);
    this.#onNeed.committed(job, hosts, failures);
    this.inFlight = false;
    this.lastJobFailed = false;
    if (hasAll) this.committedVersion = job.version;
    this.#taken = undefined;
    const push = dirty?.push ?? NO_PUSH;
    // Placements that were added while the job ran.
    for (const each of this.#placements.all()) lines.push(...this.beginPlacement(each, snapshot, encoders, push));
    return { changed, failures: lines, push: dirty?.push, first, found: hosts?.wanted ?? NO_NAMES };
  }

  #has(type: GeneratedType, unit: Unit): boolean {
    return this.#units[type].has(unit) || (type === 'cds' && this.#placedUnits.has(unit));
  }

  /** See `FilterVersions.withKept`. */
  #withKept(answer: JobAnswer): JobAnswer {
    return this.#filters?.withKept(answer, (type, unit) => this.#has(type, unit)) ?? answer;
  }

  /** Encodes the endpoints of these hosts' clusters again. */
  updateEndpoints(hostnames: Iterable<string>, snapshot: Snapshot, encoders: Encoders): EndpointsResult<Placed<S>> {
    const clusters = [...hostnames].flatMap((host) => (this.#units.cds.get(host) ?? []).map(({ name }) => name));
    const failures: BuildFailure[] = [];
    const changed = this.#bundles.update(clusters, this.#placements.all(), { snapshot, encoders, failures });
    const view = this.view;
    const names = isClientView(view) ? clusters.map((name) => endpointName(view.endpointNames, name)) : [];
    return { changed, names, failures };
  }
}
