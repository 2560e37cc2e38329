/**
 * The versions of EnvoyFilters that the units of a view were last generated with. If an edit does not fit a unit,
 * generation uses these versions, so that all other changes of the unit take effect at once. Documents are kept by
 * reference, from the snapshots that jobs were taken with; versions before one that fitted are never used again.
 */
import { serialize } from 'node:v8';
import {
  type AppliedFilter,
  type FormerFilter,
  type FormerFilters,
  type GeneratedType,
  type Misfit,
  PATCHED_TYPES,
  type PatchedType,
  type Unit,
  type View,
} from '../../generate/index.ts';
import type { Snapshot } from '../../model/index.ts';
import type { Resource, ResourceKey } from '../../resources/index.ts';
import type { FailureAnswer, GenerateJob, JobAnswer } from '../protocol.ts';
import type { UnitFailure } from './job-changes.ts';

type EnvoyFilter = Resource<'EnvoyFilter'>;

interface FilterVersion extends AppliedFilter {
  /** Undefined: not kept, because the view has too many versions of the EnvoyFilter. */
  readonly filter: EnvoyFilter | undefined;
}

/** The versions that a unit was generated with: one object for all units with the same versions. */
type Versions = readonly FilterVersion[];

const NO_VERSIONS: Versions = [];

/**
 * Maximum number of former versions of one EnvoyFilter that a view keeps. Several are only in use if consecutive edits
 * each fit some units. A unit that was generated with a dropped version is not generated again without the EnvoyFilter:
 * it stays as it is.
 */
const MAX_FORMER_VERSIONS = 8;

/** The units of one type. */
class VersionsOfUnits {
  readonly #units = new Map<Unit, Versions>();
  /** Number of units by the versions that they were generated with. */
  readonly #counts = new Map<Versions, number>();

  get(unit: Unit): Versions | undefined {
    return this.#units.get(unit);
  }

  get units(): Iterable<Unit> {
    return this.#units.keys();
  }

  /** Each that some unit was made with. */
  get distinct(): Iterable<Versions> {
    return this.#counts.keys();
  }

  set(unit: Unit, versions: Versions): void {
    if (this.#units.get(unit) === versions) return;
    this.delete(unit);
    this.#units.set(unit, versions);
    this.#counts.set(versions, (this.#counts.get(versions) ?? 0) + 1);
  }

  delete(unit: Unit): void {
    const versions = this.#units.get(unit);
    if (versions === undefined) return;
    this.#units.delete(unit);
    const left = (this.#counts.get(versions) ?? 0) - 1;
    if (left > 0) this.#counts.set(versions, left);
    else this.#counts.delete(versions);
  }

  /** The most frequent versions of units that were not generated with the current versions. */
  commonest(current: Versions): Versions | undefined {
    let found: Versions | undefined;
    let most = 0;
    for (const [versions, count] of this.#counts)
      if (versions !== current && count > most) [found, most] = [versions, count];
    return found;
  }

  copy(): VersionsOfUnits {
    const copy = new VersionsOfUnits();
    for (const [unit, versions] of this.#units) copy.set(unit, versions);
    return copy;
  }

  /** Adds the units that are not here, with some of their versions. */
  add(other: VersionsOfUnits, isWanted: (version: FilterVersion) => boolean): void {
    const wanted = new Map(Array.from(other.distinct, (versions) => [versions, versions.filter(isWanted)]));
    for (const [unit, versions] of other.#units) if (!this.#units.has(unit)) this.set(unit, wanted.get(versions) ?? []);
  }
}

/** The versions of a type with which a job was taken. */
interface Taken {
  readonly current: Versions;
  /** Undefined: all units were made with the current versions. */
  readonly former: { readonly ofUnits: VersionsOfUnits; readonly others: Versions } | undefined;
}

type ByType<T> = Record<PatchedType, T>;

export class FilterVersions {
  readonly #view: View;
  #units: ByType<VersionsOfUnits> = byType(() => new VersionsOfUnits());
  /** The versions of the last job's snapshot; the same object while they are unchanged. */
  readonly #current: ByType<Versions | undefined> = byType(() => undefined);
  #taken: Partial<ByType<Taken>> = {};
  /** Results of {@link losesFilter} for an answer. */
  #losses = new ByVersionsAndMisfits<boolean>();
  /** Those that {@link inherit} was called with. */
  #inherited = new WeakSet<FilterVersions>();

  constructor(view: View) {
    this.#view = view;
  }

  /**
   * Takes over the versions of units from the former views of proxies that move to this view, which is not built yet.
   *
   * @param isUsed whether the view has other proxies already
   */
  inherit(other: FilterVersions | undefined, isUsed: boolean): void {
    if (!isUsed) {
      this.#units = byType(() => new VersionsOfUnits());
      this.#inherited = new WeakSet();
    }
    // Many proxies move together.
    if (other === undefined || this.#inherited.has(other)) return;
    this.#inherited.add(other);
    for (const type of PATCHED_TYPES) {
      const keys = new Set(this.#applied(type).map(({ key }) => key));
      // EnvoyFilters that this view does not have were removed.
      if (keys.size > 0) this.#units[type].add(other.#units[type], ({ key }) => keys.has(key));
    }
  }

  /** The patches for a type. */
  #applied(type: PatchedType): readonly AppliedFilter[] {
    return ('patches' in this.#view ? this.#view.patches?.[type] : undefined) ?? [];
  }

  /**
   * Called when a job is taken: returns the versions that its units were last generated with, if they differ from those
   * of the snapshot.
   */
  take(snapshot: Snapshot, selected: GenerateJob['units']): readonly FormerFilters[] {
    this.#taken = {};
    return PATCHED_TYPES.flatMap((type) => {
      const units = selected[type];
      const current = units && this.#read(snapshot, type);
      if (current === undefined) return [];
      const ofUnits = this.#units[type];
      const others = ofUnits.commonest(current);
      if (others === undefined) {
        this.#taken[type] = { current, former: undefined };
        return [];
      }
      this.#taken[type] = { current, former: { ofUnits: ofUnits.copy(), others } };
      const wanted = units === 'all' || units === undefined ? ofUnits.units : units;
      return formerFilters(type, wanted, ofUnits, { current, others });
    });
  }

  /** The versions in the snapshot; undefined if there are no patches for the type. */
  #read(snapshot: Snapshot, type: PatchedType): Versions | undefined {
    const applied = this.#applied(type);
    if (applied.length === 0) return undefined;
    const filters = snapshot.resources('EnvoyFilter');
    const read = applied.map(({ key, patches }) => ({ key, patches, filter: filters.get(key) }));
    const known = this.#current[type];
    if (known?.every(({ filter }, index) => isSame(filter, read[index]?.filter)) === true) return known;
    this.#current[type] = read;
    return read;
  }

  /**
   * Whether a unit was generated without an EnvoyFilter that it had before: it then stays as it is, because the
   * EnvoyFilter may authorize requests.
   */
  losesFilter(type: GeneratedType, unit: Unit, misfits: readonly Misfit[]): boolean {
    const former = (isPatched(type) && this.#formerOf(type, unit)) || NO_VERSIONS;
    return this.#losses.get(former, misfits, () => {
      const keys = new Set(former.map(({ key }) => key));
      return misfits.some(({ key, use }) => use === 'nothing' && keys.has(key));
    });
  }

  /**
   * The answer, with failures of the units that would lose an EnvoyFilter: these keep their state.
   * @param exists whether the view has a unit
   */
  withKept(answer: JobAnswer, exists: (type: GeneratedType, unit: Unit) => boolean): JobAnswer {
    const failures = answer.failures.map((failure): FailureAnswer => {
      const { misfits, ...kept } = failure;
      const { type, unit, message } = kept;
      if (misfits === undefined || !exists(type, unit) || !this.losesFilter(type, unit, misfits)) return failure;
      return { ...kept, message: `${message}; no version of an EnvoyFilter that was applied before fits` };
    });
    return { ...answer, failures };
  }

  /** The versions that the unit was generated with when the job was taken. */
  #formerOf(type: PatchedType, unit: Unit): Versions | undefined {
    const taken = this.#taken[type];
    if (taken === undefined) return undefined;
    return taken.former === undefined
      ? this.#units[type].get(unit)
      : (taken.former.ofUnits.get(unit) ?? taken.former.others);
  }

  /**
   * Called when the units of the job's answer have become those of the view.
   *
   * @param isKept whether a unit stays as it was before
   * @param exists whether the view has a unit now
   */
  commit(
    answer: JobAnswer,
    isKept: (type: GeneratedType, unit: Unit) => boolean,
    exists: (type: GeneratedType, unit: Unit) => boolean,
  ): void {
    const misfits = new Map(answer.failures.map((failure) => [nameOf(failure), failure.misfits] as const));
    const made = new ByVersionsAndMisfits<Versions>();
    const kept: Partial<ByType<KeptVersions>> = {};
    for (const { type, unit } of answer.units) {
      const taken = isPatched(type) ? this.#taken[type] : undefined;
      if (taken === undefined || !isPatched(type) || isKept(type, unit)) continue;
      const ofType = this.#units[type];
      if (!exists(type, unit)) ofType.delete(unit);
      else {
        const former = this.#formerOf(type, unit) ?? NO_VERSIONS;
        const replaced = misfits.get(nameOf({ type, unit }));
        const make = () => {
          kept[type] ??= new KeptVersions(ofType, taken.current);
          return madeWith(taken.current, former, replaced ?? [], kept[type]);
        };
        ofType.set(unit, replaced === undefined ? taken.current : made.get(former, replaced, make));
      }
    }
    for (const type of answer.complete) {
      if (!isPatched(type)) continue;
      const ofType = this.#units[type];
      for (const unit of [...ofType.units]) if (!exists(type, unit) && !isKept(type, unit)) ofType.delete(unit);
    }
    this.#taken = {};
    this.#losses = new ByVersionsAndMisfits();
  }
}

/**
 * Results for units that had the same versions before and have the same misfits, computed once: an answer has one
 * object for all units with the same misfits.
 */
class ByVersionsAndMisfits<T> {
  readonly #known = new Map<Versions, Map<readonly Misfit[], T>>();

  get(former: Versions, misfits: readonly Misfit[], make: () => T): T {
    const ofFormer = this.#known.get(former) ?? new Map<readonly Misfit[], T>();
    this.#known.set(former, ofFormer);
    const known = ofFormer.get(misfits);
    if (known !== undefined) return known;
    const made = make();
    ofFormer.set(misfits, made);
    return made;
  }
}

/** The versions that a unit was generated with after a job. */
function madeWith(current: Versions, former: Versions, misfits: readonly Misfit[], kept: KeptVersions): Versions {
  const before = new Map(former.map((version) => [version.key, version]));
  const replaced = new Map(misfits.map(({ key, use }) => [key, use === 'nothing' ? undefined : before.get(key)]));
  return current.flatMap((version) => {
    if (!replaced.has(version.key)) return [version];
    const used = replaced.get(version.key);
    return used === undefined ? [] : [kept.limited(used)];
  });
}

/** The former versions that the units of a type have, as many as are kept. */
class KeptVersions {
  readonly #fingerprints = new Map<ResourceKey, Set<string>>();

  constructor(units: VersionsOfUnits, current: Versions) {
    const now = new Map(current.map(({ key, filter }) => [key, filter]));
    for (const versions of units.distinct)
      for (const { key, filter } of versions)
        if (filter !== undefined && !isSame(filter, now.get(key))) this.#of(key).add(filter.fingerprint);
  }

  #of(key: ResourceKey): Set<string> {
    const known = this.#fingerprints.get(key) ?? new Set();
    this.#fingerprints.set(key, known);
    return known;
  }

  /** The version, without its document if there are too many others. */
  limited(version: FilterVersion): FilterVersion {
    const { key, filter } = version;
    if (filter === undefined) return version;
    const allowed = [...this.#of(key)].slice(0, MAX_FORMER_VERSIONS);
    return allowed.includes(filter.fingerprint) ? version : { ...version, filter: undefined };
  }
}

/** The units with their versions: an entry for all units with `others`, and one for each other unit. */
function formerFilters(
  type: PatchedType,
  units: Iterable<Unit>,
  ofUnits: VersionsOfUnits,
  { current, others }: { readonly current: Versions; readonly others: Versions },
): readonly FormerFilters[] {
  const currentByKey = new Map(current.map((version) => [version.key, version]));
  // One object for each version: a worker decodes it once.
  const known = new Map<FilterVersion, readonly FormerFilter[]>();
  const filters = (versions: Versions) =>
    versions.flatMap((version) => {
      const sent = known.get(version) ?? former(version, currentByKey.get(version.key));
      known.set(version, sent);
      return sent;
    });
  const named = Map.groupBy(units, (unit) => ofUnits.get(unit) ?? others);
  named.delete(others);
  const entries = Array.from(named, ([versions, each]) => ({ type, units: each, filters: filters(versions) }));
  return [{ type, filters: filters(others) }, ...entries];
}

/** A version as generation gets it; none for an EnvoyFilter that the view no longer has. */
function former({ key, patches, filter }: FilterVersion, current: FilterVersion | undefined): readonly FormerFilter[] {
  if (filter === undefined || current === undefined) return [];
  const isCurrent = isSame(filter, current.filter) && String(patches) === String(current.patches);
  return [{ key, patches, ...(!isCurrent && { content: serialized(filter) }) }];
}

/** Contents as they are sent to workers, serialized once for all views. */
const contents = new WeakMap<EnvoyFilter, Uint8Array>();

function serialized(filter: EnvoyFilter): Uint8Array {
  let content = contents.get(filter);
  if (content === undefined) {
    content = new Uint8Array(serialize(filter.content));
    contents.set(filter, content);
  }
  return content;
}

function isSame(one: EnvoyFilter | undefined, other: EnvoyFilter | undefined): boolean {
  return one?.fingerprint === other?.fingerprint;
}

/** Maximum number of EnvoyFilters in a message. */
const MAX_LISTED = 3;

/** The end of a message about a unit that could not be generated as configured: the consequence. */
export function consequence({ misfits }: UnitFailure): string {
  if (misfits === undefined) return '; the last good version stays in force';
  const listed = misfits.slice(0, MAX_LISTED).map(({ key, use }) => {
    return use === 'nothing' ? `${key} is left out` : `the former version of ${key} applies`;
  });
  const more = misfits.length - listed.length;
  return `; ${listed.join(', ')}${more > 0 ? `, and ${more} more are left out or replaced by a former version` : ''}`;
}

function isPatched(type: GeneratedType): type is PatchedType {
  return PATCHED_TYPES.some((each) => each === type);
}

export function nameOf({ type, unit }: Pick<UnitFailure, 'type' | 'unit'>): string {
  return `${type}/${unit}`;
}

function byType<T>(make: (type: PatchedType) => T): ByType<T> {
  return { cds: make('cds'), ecds: make('ecds'), lds: make('lds'), rds: make('rds'), vhds: make('vhds') };
}
