/**
 * One live view: its units, the bundles made of them, and what still has to be generated. Bundles of all types are replaced
 * together, so that a stream never sees listeners of one snapshot beside clusters of another.
 */
import type { GenerateJob } from '../../workers/protocol.ts';
import { type EndpointsInput, endpointName, endpointsOfHost, hostOfCluster } from '../generate/index.ts';
import {
  GENERATED_TYPES,
  type GeneratedType,
  type GenerationFinding,
  type Unit,
  type UnitSelection,
  type View,
  XDS_TYPES,
  type XdsType,
} from '../generate/types.ts';
import type { Snapshot } from '../model/types.ts';
import { emptyBundle, isUntouched, nextBundle } from './bundle.ts';
import type { EndpointEncoder } from './endpoint-encoder.ts';
import type { GeneratedJob } from './generator.ts';
import type { Interner } from './interner.ts';
import { applyUnits, jobChanges, resourceChanges, type UnitFailure } from './job-changes.ts';
import type { Precedents, UnitContents } from './precedents.ts';
import type { Bundle, EncodedResource, PushReason } from './types.ts';

type DirtyUnits = Map<GeneratedType, 'all' | ReadonlySet<Unit>>;

/** Work that a view still has to do: which units, since when, and why. */
interface Dirty {
  readonly units: DirtyUnits;
  since: number;
  readonly reasons: Set<PushReason>;
}

/** Something that could not be made; one line. */
export interface BuildFailure {
  readonly type: XdsType;
  readonly message: string;
}

export interface CommitResult {
  /** Types whose bundle is another one than before. */
  readonly changed: ReadonlySet<XdsType>;
  readonly since: number;
  readonly reasons: ReadonlySet<PushReason>;
  /** What keeps its last good version. */
  readonly failures: readonly BuildFailure[];
}

export interface EndpointsResult {
  /** True when the bytes of some differ. */
  readonly changed: boolean;
  readonly failures: readonly BuildFailure[];
}

/** Where encoded resources come from. */
export interface Encoders {
  readonly interner: Interner;
  readonly endpoints: EndpointEncoder;
  readonly precedents: Precedents;
}

/** What a view knows of those who have it. */
interface Member {
  /** Whose proxy it is. */
  readonly caller: string;
}

export class ViewState<S extends Member> {
  readonly key: string;
  readonly view: View;
  readonly #sessions = new Set<S>();
  /** Whose they are, and how many of each. */
  readonly #callers = new Map<string, number>();
  /** True once the first generation is committed, and as long as what there is may be served to new sessions. */
  built = false;
  inFlight = false;
  /** Snapshot version of the last commit. While nothing is dirty or in flight the view stands at the engine's version. */
  committedVersion = 0;
  /** Snapshot version of the last commit after which every unit was as that snapshot has it. */
  wholeVersion = 0;
  /** Units `type/unit` that could not be generated: their last good version stays. */
  readonly #failing = new Set<string>();
  /** Types that somebody has asked for since the view is there: no others are generated. */
  readonly #wanted = new Set<GeneratedType>();
  /** Types that were generated. */
  readonly #made = new Set<GeneratedType>();
  #dirty: Dirty | undefined;
  #taken: Dirty | undefined;
  /** Listeners that wait for routes that could not be generated. */
  #withheld: ReadonlySet<Unit> = new Set();
  readonly #units: Record<GeneratedType, Map<Unit, readonly EncodedResource[]>>;
  readonly #findings = new Map<string, readonly GenerationFinding[]>();
  /** Another object whenever one of them is another. */
  #bundles: Readonly<Record<XdsType, Bundle>>;

  constructor(key: string, view: View) {
    this.key = key;
    this.view = view;
    this.#units = { cds: new Map(), sds: new Map(), lds: new Map(), rds: new Map(), vhds: new Map() };
    this.#bundles = {
      cds: emptyBundle('cds', key),
      eds: emptyBundle('eds', key),
      sds: emptyBundle('sds', key),
      lds: emptyBundle('lds', key),
      rds: emptyBundle('rds', key),
      vhds: emptyBundle('vhds', key),
    };
  }

  /** Sessions whose configuration has this part, or is about to. */
  get sessions(): ReadonlySet<S> {
    return this.#sessions;
  }

  /** Whose these sessions are. */
  callers(): Iterable<string> {
    return this.#callers.keys();
  }

  /** True when some session of this caller has the view. */
  isOf(caller: string): boolean {
    return this.#callers.has(caller);
  }

  /** Does nothing for one that is in already. */
  enter(session: S): void {
    if (this.#sessions.has(session)) return;
    this.#sessions.add(session);
    this.#callers.set(session.caller, (this.#callers.get(session.caller) ?? 0) + 1);
  }

  /** False when the session was not in. */
  leave(session: S): boolean {
    if (!this.#sessions.delete(session)) return false;
    const left = (this.#callers.get(session.caller) ?? 0) - 1;
    if (left > 0) this.#callers.set(session.caller, left);
    else this.#callers.delete(session.caller);
    return true;
  }

  /** True when no unit is left as it was because it could not be generated. */
  get whole(): boolean {
    return this.#failing.size === 0;
  }

  get isDirty(): boolean {
    return this.#dirty !== undefined;
  }

  /** What there is now; another object whenever a bundle is another. */
  get bundles(): Readonly<Record<XdsType, Bundle>> {
    return this.#bundles;
  }

  /** Types of which something is still to be generated. */
  dirtyTypes(): readonly GeneratedType[] {
    return [...(this.#dirty?.units.keys() ?? [])];
  }

  findings(): readonly GenerationFinding[] {
    return [...this.#findings.values()].flat();
  }

  /** True when the view has clusters of this host: a change of its endpoints concerns it. */
  hasHost(hostname: string): boolean {
    return this.#units.cds.has(hostname);
  }

  /** Somebody asks for these types: what of them was never generated has to be. */
  want(types: Iterable<GeneratedType>, since: number, reasons: Iterable<PushReason>): void {
    for (const type of types) {
      if (this.#wanted.has(type)) continue;
      this.#wanted.add(type);
      this.markDirty({ [type]: 'all' }, since, reasons);
    }
  }

  /** Whether what there is of these types may be served to new sessions. */
  serves(types: ReadonlySet<GeneratedType>): boolean {
    return types.size === 0 || (this.built && types.isSubsetOf(this.#made));
  }

  /** Units to be generated again, as far as somebody asks for their types. */
  markDirty(selection: UnitSelection, since: number, reasons: Iterable<PushReason>): void {
    if (!GENERATED_TYPES.some((type) => selection[type] !== undefined && this.#wanted.has(type))) return;
    this.#dirty ??= { units: new Map(), since, reasons: new Set() };
    this.#dirty.since = Math.min(this.#dirty.since, since);
    for (const reason of reasons) this.#dirty.reasons.add(reason);
    for (const type of GENERATED_TYPES) {
      const units = selection[type];
      if (units !== undefined && this.#wanted.has(type)) add(this.#dirty.units, type, units);
    }
    // Listeners that waited for routes are tried again with them.
    if (selection.rds !== undefined && this.#withheld.size > 0) add(this.#dirty.units, 'lds', this.#withheld);
  }

  /** A job is asked for: from here on the view is in flight, until {@link commit} or {@link abandon}. */
  begin(): void {
    this.inFlight = true;
  }

  /**
   * The job, when its turn has come: all that is dirty by then, so that what is generated from a snapshot is never less than what
   * that snapshot changed. Asked again (a worker crashed) it has what became dirty since, too.
   */
  takeJob(): GenerateJob {
    this.#untake();
    this.#taken = this.#dirty;
    this.#dirty = undefined;
    const units: Partial<Record<GeneratedType, 'all' | readonly Unit[]>> = {};
    for (const [type, selected] of this.#taken?.units ?? [])
      units[type] = selected === 'all' ? 'all' : [...selected].sort();
    return { viewKey: this.key, view: this.view, units };
  }

  #untake(): void {
    const taken = this.#taken;
    this.#taken = undefined;
    if (taken !== undefined) this.markDirty(Object.fromEntries(taken.units), taken.since, taken.reasons);
  }

  /** A job that could not be done: the view keeps what it has, and its units are still to be made. */
  abandon(): void {
    this.postpone();
    this.built = this.committedVersion > 0;
  }

  /** A job whose snapshot did not have the view: what it was to make is still to be made, when somebody wants the view. */
  postpone(): void {
    this.inFlight = false;
    this.#untake();
  }

  /** Takes a job's results over: units, bundles, and the endpoints that its clusters ask for. Throws before anything is changed. */
  commit(job: GeneratedJob, snapshot: Snapshot, { interner, endpoints, precedents }: Encoders): CommitResult {
    const { units, failures, withheld } = jobChanges(job, this.#units, interner);
    const next = { ...this.#bundles };
    const changed = new Set<XdsType>();
    const { part } = this.view;
    for (const type of ['cds', 'lds', 'rds', 'vhds'] as const)
      next[type] = isUntouched(next[type])
        ? precedents.begin(part, next[type], units[type])
        : nextBundle(next[type], resourceChanges(this.#units[type], units[type]));
    // Of its own alone: there is nothing to gain from the secrets of another view.
    next.sds = nextBundle(next.sds, resourceChanges(this.#units.sds, units.sds));
    // Also where the cluster's bytes are as before: a subset's labels stand in the endpoints alone.
    const lines = failures.map(({ type, unit, message }): BuildFailure => {
      return { type, message: `${type} ${unit} of ${this.key}: ${message}` };
    });
    next.eds = isUntouched(next.eds)
      ? precedents.begin(part, next.eds, this.#endpointUnits(units.cds, next.cds, snapshot, endpoints, lines))
      : nextBundle(
          next.eds,
          this.#endpointChanges(
            resourceChanges(this.#units.cds, units.cds).keys(),
            next.cds,
            snapshot,
            endpoints,
            lines,
          ),
        );
    // From here on nothing throws.
    for (const type of XDS_TYPES) if (next[type] !== this.#bundles[type]) changed.add(type);
    if (changed.size > 0) this.#bundles = next;
    applyUnits(this.#units, units);
    this.#noteWithheld(job, withheld);
    this.#noteFailing(job, failures);
    this.#noteFindings(job, failures);
    this.built = true;
    for (const type of job.answer.complete) this.#made.add(type);
    this.inFlight = false;
    this.committedVersion = job.version;
    const { since = 0, reasons = new Set<PushReason>() } = this.#taken ?? {};
    this.#taken = undefined;
    return { changed, failures: lines, since, reasons };
  }

  /** Encodes the endpoints of a host's clusters again. */
  updateEndpoints(hostnames: Iterable<string>, snapshot: Snapshot, encoder: EndpointEncoder): EndpointsResult {
    const clusters: string[] = [];
    for (const hostname of hostnames) {
      for (const cluster of this.#units.cds.get(hostname) ?? []) clusters.push(cluster.name);
    }
    const failures: BuildFailure[] = [];
    const before = this.#bundles;
    const eds = nextBundle(before.eds, this.#endpointChanges(clusters, before.cds, snapshot, encoder, failures));
    if (eds !== before.eds) this.#bundles = { ...before, eds };
    return { changed: this.#bundles !== before, failures };
  }

  /** Endpoint resources for the clusters of these units: for units that other views have, those that these have. */
  #endpointUnits(
    units: UnitContents,
    clusters: Bundle,
    snapshot: Snapshot,
    encoder: EndpointEncoder,
    failures: BuildFailure[],
  ): UnitContents {
    const { view } = this;
    const found = new Map<Unit, readonly EncodedResource[]>();
    if (view.part === 'inbound') return found;
    for (const [unit, members] of units) {
      if (members === undefined) continue;
      const shared = encoder.encodeUnit(members, (host) => endpointsOfHost(snapshot, view, host));
      if (shared !== undefined) {
        found.set(unit, shared);
        continue;
      }
      const names = members.map(({ name }) => name);
      const apart = this.#endpointChanges(names, clusters, snapshot, encoder, failures);
      found.set(
        unit,
        [...apart.values()].filter((resource) => resource !== undefined),
      );
    }
    return found;
  }

  /** Endpoint resources for these cluster names: encoded where the cluster asks for them, gone where it does not any more. */
  #endpointChanges(
    clusterNames: Iterable<string>,
    clusters: Bundle,
    snapshot: Snapshot,
    encoder: EndpointEncoder,
    failures: BuildFailure[],
  ): Map<string, EncodedResource | undefined> {
    const changes = new Map<string, EncodedResource | undefined>();
    const { view } = this;
    if (view.part === 'inbound') return changes;
    let inputs: ReadonlyMap<string, EndpointsInput> = new Map();
    let host: string | undefined;
    for (const clusterName of clusterNames) {
      const cluster = clusters.get(clusterName);
      if (cluster === undefined || cluster.refs.length === 0) {
        changes.set(endpointName(view.endpointNames, clusterName), undefined);
        continue;
      }
      try {
        // The clusters of a host come one after the other.
        const next = hostOfCluster(clusterName);
        if (next !== host) {
          host = undefined;
          inputs = endpointsOfHost(snapshot, view, next);
          host = next;
        }
        const input = inputs.get(clusterName);
        // A service that has gone since: its cluster goes with a job that is under way, until then the endpoints stay.
        if (input !== undefined) changes.set(input.name, encoder.encode(input));
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error);
        failures.push({ type: 'eds', message: `eds ${clusterName} of ${this.key}: ${reason}` });
      }
    }
    return changes;
  }

  #noteFailing({ answer, version }: GeneratedJob, failures: readonly UnitFailure[]): void {
    for (const type of answer.complete)
      for (const key of this.#failing) if (key.startsWith(`${type}/`)) this.#failing.delete(key);
    for (const { type, unit } of answer.units) this.#failing.delete(`${type}/${unit}`);
    for (const { type, unit } of failures) this.#failing.add(`${type}/${unit}`);
    if (this.whole) this.wholeVersion = version;
  }

  #noteWithheld({ answer }: GeneratedJob, withheld: ReadonlySet<Unit>): void {
    const made = new Set(answer.units.filter(({ type }) => type === 'lds').map(({ unit }) => unit));
    const still = answer.complete.includes('lds') ? [] : [...this.#withheld].filter((unit) => !made.has(unit));
    this.#withheld = new Set([...still, ...withheld]);
  }

  /** Findings of what was generated anew; those of a unit whose last good version stays stay with it. */
  #noteFindings({ answer }: GeneratedJob, failures: readonly UnitFailure[]): void {
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

function add(units: DirtyUnits, type: GeneratedType, more: 'all' | ReadonlySet<Unit>): void {
  const known = units.get(type);
  if (known === 'all') return;
  units.set(type, more === 'all' || known === undefined ? more : known.union(more));
}
