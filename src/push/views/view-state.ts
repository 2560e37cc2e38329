/**
 * One live view: its units, the bundles made of them, and what still has to be generated. Bundles of all types are
 * replaced together, so that a stream never sees listeners of one snapshot beside clusters of another. Its proxies may
 * be in several placements: what depends on that is made for each of them, in the same jobs and with the same commits
 * as the rest.
 */
import {
  GENERATED_TYPES,
  type GeneratedType,
  type GenerationFinding,
  type Placement,
  type Unit,
  type UnitSelection,
  type View,
} from '../../generate/types.ts';
import type { Snapshot } from '../../model/types.ts';
import type { GeneratedJob } from '../jobs/index.ts';
import type { GenerateJob } from '../protocol.ts';
import { placementKey } from '../proxies/index.ts';
import type { EncodedResource, PushReason } from '../types.ts';
import { applyEdits, applyUnits, type Edits, jobChanges, type UnitFailure } from './job-changes.ts';
import { type Member, PlacedView } from './placed-view.ts';
import { type ChangedTypes, type Encoders, type PlacedBundles, ViewBundles } from './view-bundles.ts';
import type { BuildFailure } from './view-endpoints.ts';

type DirtyUnits = Map<GeneratedType, 'all' | ReadonlySet<Unit>>;

/** Work that a view still has to do: which units, since when, and why. */
interface Dirty {
  readonly units: DirtyUnits;
  eventTime: number;
  readonly reasons: Set<PushReason>;
}

/** All that is to be made for a job: where the view's proxies are when it is taken. */
interface Taken<S extends Member> {
  readonly dirty: Dirty | undefined;
  readonly placed: readonly Placed<S>[];
}

export interface CommitResult<S extends Member> {
  /** Types whose bundle is another one than before, by placement. */
  readonly changed: ChangedTypes<Placed<S>>;
  readonly eventTime: number;
  readonly reasons: ReadonlySet<PushReason>;
  /** What keeps its last good version. */
  readonly failures: readonly BuildFailure[];
}

export interface EndpointsResult<S extends Member> {
  /** Placements in which the bytes of some differ. */
  readonly changed: readonly Placed<S>[];
  readonly failures: readonly BuildFailure[];
}

/** What placements lend each other. */
type PlacedClusters = Pick<PlacedBundles, 'placement' | 'clusters' | 'initialized'>;

/** The view in one of its placements. */
type Placed<S extends Member> = PlacedView<S, ViewState<S>>;

export class ViewState<S extends Member> {
  readonly key: string;
  readonly view: View;
  /** Where its proxies are, or have been lately. */
  readonly #placed = new Map<string, Placed<S>>();
  readonly #sessions = new Set<S>();
  /** True once the first generation is committed, and as long as what there is may be served to new sessions. */
  built = false;
  inFlight = false;
  /** True from a job that failed to the next that is committed. */
  lastJobFailed = false;
  /**
   * Snapshot version of the last commit. While nothing is dirty or in flight the view stands at the engine's version.
   */
  committedVersion = 0;
  /** Snapshot version of the last commit after which every unit was as that snapshot has it. */
  wholeVersion = 0;
  /** Units `type/unit` that could not be generated: their last good version stays. */
  readonly #failing = new Set<string>();
  /** Types that somebody has asked for since the view is there: no others are generated. */
  readonly #requested = new Set<GeneratedType>();
  /** Types that were generated. */
  readonly #generated = new Set<GeneratedType>();
  #dirty: Dirty | undefined;
  #taken: Taken<S> | undefined;
  /** Listeners that wait for routes that could not be generated. */
  #withheld: ReadonlySet<Unit> = new Set();
  readonly #units: Record<GeneratedType, Map<Unit, readonly EncodedResource[]>>;
  /** Units of clusters that depend on the placement. */
  readonly #placedUnits = new Set<Unit>();
  readonly #findings = new Map<string, readonly GenerationFinding[]>();
  readonly #bundles: ViewBundles<Placed<S>>;

  constructor(key: string, view: View) {
    this.key = key;
    this.view = view;
    this.#units = { cds: new Map(), sds: new Map(), lds: new Map(), rds: new Map(), vhds: new Map() };
    this.#bundles = new ViewBundles(key, view);
  }

  /** Sessions whose configuration has this part, or is about to. */
  get sessions(): ReadonlySet<S> {
    return this.#sessions;
  }

  /** Whose these sessions are. */
  callers(): Iterable<string> {
    return new Set([...this.#placed.values()].flatMap((placed) => [...placed.callers()]));
  }

  /** The view as proxies of a placement have it, made when it is new. */
  ensurePlacement(placement: Placement): Placed<S> {
    const key = placementKey(placement);
    let placed = this.#placed.get(key);
    if (placed === undefined) {
      placed = new PlacedView(this, key, placement, this.#bundles.initial);
      this.#placed.set(key, placed);
    }
    return placed;
  }

  /** The same; undefined where it has none. */
  findPlacement(placement: Placement): Placed<S> | undefined {
    return this.#placed.get(placementKey(placement));
  }

  /** In all its placements. */
  placements(): Iterable<Placed<S>> {
    return this.#placed.values();
  }

  /** Forgets a placement in which nobody is any more. False when the view has none left. */
  removePlacement({ key }: Placed<S>): boolean {
    this.#placed.delete(key);
    return this.#placed.size > 0;
  }

  /** Does nothing for one that is in already. */
  enter(placed: Placed<S>, session: S): void {
    if (placed.enter(session)) this.#sessions.add(session);
  }

  /** False when the session was not in. A session that moves is in two placements at a time. */
  leave(placed: Placed<S>, session: S): boolean {
    if (!placed.leave(session)) return false;
    for (const { sessions } of this.#placed.values()) if (sessions.has(session)) return true;
    this.#sessions.delete(session);
    return true;
  }

  /** True when no unit is left as it was because it could not be generated. */
  get whole(): boolean {
    return this.#failing.size === 0;
  }

  get isDirty(): boolean {
    return this.#dirty !== undefined;
  }

  /** Types of which something is still to be generated. */
  dirtyTypes(): readonly GeneratedType[] {
    return [...(this.#dirty?.units.keys() ?? [])];
  }

  findings(): readonly GenerationFinding[] {
    return [...this.#findings.values()].flat();
  }

  /** The unit that a resource is of, in some placement. */
  unitOf(type: GeneratedType, name: string): Unit | undefined {
    const placed = type === 'cds' ? Array.from(this.#placed.values(), ({ clusters }) => clusters) : [];
    for (const units of [this.#units[type], ...placed])
      for (const [unit, resources] of units) if (resources.some((each) => each.name === name)) return unit;
    return undefined;
  }

  /** Somebody asks for these types: what of them was never generated has to be. */
  request(types: Iterable<GeneratedType>, eventTime: number, reasons: Iterable<PushReason>): void {
    for (const type of types) {
      if (this.#requested.has(type)) continue;
      this.#requested.add(type);
      this.markDirty({ [type]: 'all' }, eventTime, reasons);
    }
  }

  /** Whether what there is of these types may be served to new sessions. */
  serves(types: ReadonlySet<GeneratedType>): boolean {
    return types.size === 0 || (this.built && types.isSubsetOf(this.#generated));
  }

  /**
   * Has a placement given its clusters and endpoints: at once where no cluster depends on it, else by the next job.
   * Returns what could not be made. While a job is under way it waits for its end, so that each job knows of all
   * placements that have anything.
   */
  beginPlacement(
    placed: Placed<S>,
    snapshot: Snapshot,
    encoders: Encoders,
    eventTime: number,
    reasons: Iterable<PushReason>,
  ): readonly BuildFailure[] {
    if (placed.initialized || this.inFlight || !this.built || !this.#generated.has('cds')) return [];
    if (this.#placedUnits.size > 0) {
      this.markDirty({ cds: this.#placedUnits }, eventTime, reasons);
      return [];
    }
    const failures: BuildFailure[] = [];
    this.#bundles.begin(placed, this.#units.cds, { snapshot, encoders, failures });
    return failures;
  }

  /** Units to be generated again, as far as somebody asks for their types. */
  markDirty(selection: UnitSelection, eventTime: number, reasons: Iterable<PushReason>): void {
    if (!GENERATED_TYPES.some((type) => selection[type] !== undefined && this.#requested.has(type))) return;
    this.#dirty ??= { units: new Map(), eventTime, reasons: new Set() };
    this.#dirty.eventTime = Math.min(this.#dirty.eventTime, eventTime);
    for (const reason of reasons) this.#dirty.reasons.add(reason);
    for (const type of GENERATED_TYPES) {
      const units = selection[type];
      if (units !== undefined && this.#requested.has(type)) add(this.#dirty.units, type, units);
    }
    // Listeners that waited for routes are tried again with them.
    if (selection.rds !== undefined && this.#withheld.size > 0) add(this.#dirty.units, 'lds', this.#withheld);
  }

  /** A job is asked for: from here on the view is in flight, until {@link commit} or {@link abandon}. */
  begin(): void {
    this.inFlight = true;
  }

  /**
   * The job, when its turn has come: all that is dirty by then, so that what is generated from a snapshot is never less
   * than what that snapshot changed. Asked again (a worker crashed) it has what became dirty since, too.
   */
  takeJob(): GenerateJob {
    this.#returnJob();
    const dirty = this.#dirty;
    const placed = [...this.#placed.values()];
    this.#taken = { dirty, placed };
    this.#dirty = undefined;
    const selection: DirtyUnits = new Map(dirty?.units);
    // Who has come since the last job has none of these.
    if (this.#placedUnits.size > 0 && placed.some(({ initialized }) => !initialized) && this.#requested.has('cds'))
      add(selection, 'cds', this.#placedUnits);
    const units: Partial<Record<GeneratedType, 'all' | readonly Unit[]>> = {};
    for (const [type, selected] of selection) units[type] = selected === 'all' ? 'all' : [...selected].sort();
    return { viewKey: this.key, view: this.view, units, placements: placed.map(({ placement }) => placement) };
  }

  #returnJob(): void {
    const dirty = this.#taken?.dirty;
    this.#taken = undefined;
    if (dirty !== undefined) this.markDirty(Object.fromEntries(dirty.units), dirty.eventTime, dirty.reasons);
  }

  /** A job that could not be done: the view keeps what it has, and its units are still to be made. */
  abandon(): void {
    this.postpone();
    this.lastJobFailed = true;
    this.built = this.committedVersion > 0;
  }

  /**
   * A job whose snapshot did not have the view: what it was to make is still to be made, when somebody wants the view.
   */
  postpone(): void {
    this.inFlight = false;
    this.#returnJob();
  }

  /**
   * Takes a job's results over: units, bundles, and the endpoints that its clusters ask for. Throws before anything is
   * changed.
   */
  commit(job: GeneratedJob, snapshot: Snapshot, encoders: Encoders): CommitResult<S> {
    const { dirty, placed = [] } = this.#taken ?? {};
    const clusters = placed.map((each) => each.clusters);
    const { units, placed: edits, failures, withheld } = jobChanges(job, this.#units, clusters, encoders.interner);
    const lines = failures.map(({ type, unit, message }): BuildFailure => {
      return { type, message: `${type} ${unit} of ${this.key}: ${message}` };
    });
    const ofPlaced = new Map(placed.map((each, index) => [each, edits[index] ?? new Map()]));
    for (const { type, unit } of failures) if (type === 'cds') lendClusters(unit, ofPlaced);
    const complete = job.answer.complete.includes('cds') || this.#generated.has('cds');
    const placements = this.#placed.values();
    const { changed, apply } = this.#bundles.next(
      { units: this.#units, edits: units, placements, placed: ofPlaced, complete },
      { snapshot, encoders, failures: lines },
    );
    // From here on nothing throws.
    apply();
    applyUnits(this.#units, units);
    for (const [each, ofEach] of ofPlaced) applyEdits(each.clusters, ofEach);
    this.#updatePlacedUnits(job, failures);
    this.#updateWithheld(job, withheld);
    this.#updateFailing(job, failures);
    this.#updateFindings(job, failures);
    this.built = true;
    for (const type of job.answer.complete) this.#generated.add(type);
    this.inFlight = false;
    this.lastJobFailed = false;
    this.committedVersion = job.version;
    this.#taken = undefined;
    const { eventTime = 0, reasons = new Set<PushReason>() } = dirty ?? {};
    // Who came while the job was under way.
    for (const each of this.#placed.values())
      lines.push(...this.beginPlacement(each, snapshot, encoders, eventTime, reasons));
    return { changed, failures: lines, eventTime, reasons };
  }

  /** Encodes the endpoints of a host's clusters again. */
  updateEndpoints(hostnames: Iterable<string>, snapshot: Snapshot, encoders: Encoders): EndpointsResult<S> {
    const clusters: string[] = [];
    for (const hostname of hostnames) {
      for (const cluster of this.#units.cds.get(hostname) ?? []) clusters.push(cluster.name);
    }
    const failures: BuildFailure[] = [];
    const changed = this.#bundles.update(clusters, this.#placed.values(), { snapshot, encoders, failures });
    return { changed, failures };
  }

  /** Which clusters depend on the placement, as far as the job has made them. */
  #updatePlacedUnits({ answer }: GeneratedJob, failures: readonly UnitFailure[]): void {
    if (answer.complete.includes('cds')) {
      const failed = new Set(failures.flatMap(({ type, unit }) => (type === 'cds' ? [unit] : [])));
      for (const unit of [...this.#placedUnits]) if (!failed.has(unit)) this.#placedUnits.delete(unit);
    }
    for (const { type, unit, placements } of answer.units) {
      if (type !== 'cds') continue;
      if (placements === undefined) this.#placedUnits.delete(unit);
      else this.#placedUnits.add(unit);
    }
  }

  #updateFailing({ answer, version }: GeneratedJob, failures: readonly UnitFailure[]): void {
    for (const type of answer.complete)
      for (const key of this.#failing) if (key.startsWith(`${type}/`)) this.#failing.delete(key);
    for (const { type, unit } of answer.units) this.#failing.delete(`${type}/${unit}`);
    for (const { type, unit } of failures) this.#failing.add(`${type}/${unit}`);
    if (this.whole) this.wholeVersion = version;
  }

  #updateWithheld({ answer }: GeneratedJob, withheld: ReadonlySet<Unit>): void {
    const made = new Set(answer.units.filter(({ type }) => type === 'lds').map(({ unit }) => unit));
    const still = answer.complete.includes('lds') ? [] : [...this.#withheld].filter((unit) => !made.has(unit));
    this.#withheld = new Set([...still, ...withheld]);
  }

  /** Findings of what was generated anew; those of a unit whose last good version stays stay with it. */
  #updateFindings({ answer }: GeneratedJob, failures: readonly UnitFailure[]): void {
    const failed = new Set(failures.map(({ type, unit }) => `${type}/${unit}`));
    for (const key of [...this.#findings.keys()]) {
      if (!failed.has(key) && answer.complete.some((type) => key.startsWith(`${type}/`))) this.#findings.delete(key);
    }
    for (const { type, unit } of answer.units)
      if (!failed.has(`${type}/${unit}`)) this.#findings.delete(`${type}/${unit}`);
    for (const finding of answer.findings) {
      const key = `${finding.type}/${finding.unit}`;
      if (!failed.has(key)) this.#findings.set(key, [...(this.#findings.get(key) ?? []), finding]);
    }
  }
}

/**
 * Gives placements that begin now the clusters of a unit that could not be generated as another placement of the same
 * network has them. The priorities of endpoints may be those of another locality; without the clusters, routes to the
 * host would lead nowhere.
 */
function lendClusters(unit: Unit, placements: ReadonlyMap<PlacedClusters, Edits>): void {
  const lenders = [...placements.keys()].filter(({ initialized, clusters }) => initialized && clusters.has(unit));
  for (const [{ initialized, placement }, edits] of placements) {
    if (initialized || edits.has(unit)) continue;
    const lender = lenders.find((each) => each.placement.network === placement.network);
    const clusters = lender?.clusters.get(unit);
    if (clusters !== undefined) edits.set(unit, clusters);
  }
}

function add(units: DirtyUnits, type: GeneratedType, more: 'all' | ReadonlySet<Unit>): void {
  const known = units.get(type);
  if (known === 'all') return;
  units.set(type, more === 'all' || known === undefined ? more : known.union(more));
}
