/**
 * Computes the changes of a job's answer in a view: replaced units, and resources that are set and removed. They are
 * computed before anything is changed, so that an invalid answer leaves the view unchanged. Units that were generated
 * independently are made consistent here: a listener is withheld while its routes are missing (an Envoy would wait for
 * them), a route that a listener still refers to stays, and virtual hosts are added and removed with their route
 * configuration.
 */
import { InternalError } from '../../core/errors.ts';
import { GENERATED_TYPES, type GeneratedType, type GenerationFailure, type Unit } from '../../generate/index.ts';
import type { Interner } from '../bundles/index.ts';
import type { GeneratedJob } from '../jobs/index.ts';
import type { UnitAnswer } from '../protocol.ts';
import type { EncodedResource } from '../types.ts';

/** The units of a view. */
export type Units = Readonly<Record<GeneratedType, ReadonlyMap<Unit, readonly EncodedResource[]>>>;

/** The same, to be changed by {@link applyUnits} only. */
export type MutableUnits = Record<GeneratedType, Map<Unit, readonly EncodedResource[]>>;

/** Shared by all views: most of them only have units of a few types. */
const NO_UNITS: MutableUnits[GeneratedType] = new Map();

export function noUnits(): MutableUnits {
  return { cds: NO_UNITS, sds: NO_UNITS, ecds: NO_UNITS, lds: NO_UNITS, rds: NO_UNITS, vhds: NO_UNITS, nds: NO_UNITS };
}

export type UnitFailure = GenerationFailure;

/** New resources by unit; undefined if the unit no longer exists. */
export type Edits = Map<Unit, readonly EncodedResource[] | undefined>;

export interface JobChanges {
  /** By type. */
  readonly units: Record<GeneratedType, Edits>;
  /** Edits of clusters that depend on the placement, for each of the job's placements. */
  readonly placed: readonly Edits[];
  /** Failures of the answer, and withheld listeners. The units without `misfits` stay as they are. */
  readonly failures: readonly UnitFailure[];
  /** The withheld listener units. */
  readonly withheld: ReadonlySet<Unit>;
}

/** @param placed the current clusters that depend on the placement, for each of the job's placements */
export function jobChanges(
  job: GeneratedJob,
  current: Units,
  placed: readonly ReadonlyMap<Unit, readonly EncodedResource[]>[],
  interner: Interner,
): JobChanges {
  const apart = {
    cds: edits(job, 'cds', current, interner),
    sds: edits(job, 'sds', current, interner),
    ecds: edits(job, 'ecds', current, interner),
    nds: edits(job, 'nds', current, interner),
  };
  const units = { ...apart, ...consistentEdits(job, current, interner) };
  const { withheld, hostless, ...changed } = units;
  return {
    units: changed,
    placed: placedEdits(job, placed, interner),
    failures: [
      ...job.answer.failures,
      ...hostless.map((unit) => ({ type: 'rds', unit, message: 'its virtual hosts could not be generated' }) as const),
      ...[...withheld].map(([unit, message]) => ({ type: 'lds', unit, message }) as const),
    ],
    withheld: new Set(withheld.keys()),
  };
}

/**
 * The resources that replacing units sets and (undefined) removes. Removals first: a name may move from one unit to
 * another.
 */
export function resourceChanges(
  current: ReadonlyMap<Unit, readonly EncodedResource[]>,
  units: ReadonlyMap<Unit, readonly EncodedResource[] | undefined>,
): Map<string, EncodedResource | undefined> {
  const changes = new Map<string, EncodedResource | undefined>();
  const known = new Map<Unit, Step>();
  for (const [unit, resources] of units) {
    const before = current.get(unit);
    const patch = resources && patchOf(resources);
    if (patch !== undefined && before !== undefined && patch.from.deref() === before) known.set(unit, patch.step);
    else for (const { name } of before ?? []) changes.set(name, undefined);
  }
  for (const [unit, resources] of units)
    for (const [name, resource] of known.get(unit) ?? byName(resources ?? [])) changes.set(name, resource);
  return changes;
}

function byName(resources: readonly EncodedResource[]): readonly (readonly [string, EncodedResource])[] {
  return resources.map((resource) => [resource.name, resource] as const);
}

function edits(job: GeneratedJob, type: GeneratedType, current: Units, interner: Interner): Edits {
  const found = gone(job, type, current[type]);
  const failed = failedUnits(job, type);
  for (const unit of job.answer.units) {
    if (unit.type !== type) continue;
    if (unit.placements === undefined) {
      const made = resourcesOf(job, unit, interner);
      // A failed unit has resources for views without a last good version.
      if (!failed.has(unit.unit) || !current[type].has(unit.unit)) found.set(unit.unit, made);
    } else if (current[type].has(unit.unit)) found.set(unit.unit, undefined);
  }
  return found;
}

/** Edits of clusters that depend on the placement; units that no longer do are removed from every placement. */
function placedEdits(
  job: GeneratedJob,
  current: readonly ReadonlyMap<Unit, readonly EncodedResource[]>[],
  interner: Interner,
): readonly Edits[] {
  const found = current.map((units) => gone(job, 'cds', units));
  const failed = failedUnits(job, 'cds');
  for (const unit of job.answer.units) {
    if (unit.type !== 'cds') continue;
    if (unit.placements === undefined) {
      for (const [index, units] of current.entries()) if (units.has(unit.unit)) found[index]?.set(unit.unit, undefined);
      continue;
    }
    const made = resourcesOf(job, unit, interner);
    for (const index of unit.placements)
      if (!failed.has(unit.unit) || current[index]?.has(unit.unit) !== true) found[index]?.set(unit.unit, made);
  }
  return found;
}

/** Removes the units that a complete answer does not have; units that it does have are set later. */
function gone({ answer }: GeneratedJob, type: GeneratedType, current: ReadonlyMap<Unit, unknown>): Edits {
  const found: Edits = new Map();
  if (!answer.complete.includes(type)) return found;
  const failed = failedUnits({ answer }, type);
  for (const unit of current.keys()) if (!failed.has(unit)) found.set(unit, undefined);
  return found;
}

/** Units that keep their state. */
function failedUnits({ answer }: Pick<GeneratedJob, 'answer'>, type: GeneratedType): ReadonlySet<Unit> {
  const failed = answer.failures.filter((failure) => failure.type === type && failure.misfits === undefined);
  return new Set(failed.map(({ unit }) => unit));
}

/** The resources of a unit that an answer sends or refers to by number; undefined if the unit no longer exists. */
function resourcesOf(
  { bytes, recalled, receivedUnits }: GeneratedJob,
  { type, number, resources, base }: UnitAnswer,
  interner: Interner,
): readonly EncodedResource[] | undefined {
  const sent = resources?.map(({ name, version, refs, offset, length }) =>
    interner.intern(type, name, version, refs, () => new Uint8Array(bytes, offset, length)),
  );
  const known = recalled.get(base?.number ?? number);
  const made = sent === undefined || base === undefined ? (sent ?? known) : patched(known, sent, base.gone);
  if (made === undefined) throw new InternalError('a unit that was not sent is not known');
  if (sent !== undefined) receivedUnits.receive(number, made);
  return made.length === 0 ? undefined : made;
}

/** How a unit was derived from the previous one, so that the two need not be compared. */
interface Patch {
  readonly from: WeakRef<readonly EncodedResource[]>;
  readonly step: Step;
}

/** A unit, with its derivation if this is known. */
type PatchedUnit = readonly EncodedResource[] & { readonly patch?: Patch };

function patchOf(unit: PatchedUnit): Patch | undefined {
  return unit.patch;
}

/** Resources by name; undefined: removed. */
type Step = ReadonlyMap<string, EncodedResource | undefined>;

/** The unit with these resources set, and without removed ones. */
function patched(
  from: readonly EncodedResource[] | undefined,
  news: readonly EncodedResource[],
  gone: readonly string[],
): PatchedUnit | undefined {
  if (from === undefined) return undefined;
  const step = new Map<string, EncodedResource | undefined>(gone.map((name) => [name, undefined]));
  for (const resource of news) step.set(resource.name, resource);
  const made = [...from.filter(({ name }) => !step.has(name)), ...news];
  return Object.assign(made, { patch: { from: new WeakRef(from), step } });
}

interface ConsistentEdits {
  readonly lds: Edits;
  readonly rds: Edits;
  readonly vhds: Edits;
  /** Listeners whose routes are missing, with the reason. */
  readonly withheld: Map<Unit, string>;
  /** Route configurations whose virtual hosts are missing. */
  readonly hostless: readonly Unit[];
}

/** The edits of listeners, routes and virtual hosts, without those that would leave references to missing resources. */
function consistentEdits(job: GeneratedJob, current: Units, interner: Interner): ConsistentEdits {
  const lds = edits(job, 'lds', current, interner);
  const rds = edits(job, 'rds', current, interner);
  const vhds = edits(job, 'vhds', current, interner);
  const hostless = withoutVirtualHosts(rds, vhds, current);
  for (const unit of hostless) rds.delete(unit);
  const withheld = new Map<Unit, string>();
  const routes = resourceChanges(current.rds, rds);
  const kept = new Set([...current.rds.values()].flatMap((resources) => resources.map(({ name }) => name)));
  const exists = (name: string): boolean => (routes.has(name) ? routes.get(name) !== undefined : kept.has(name));
  for (const [unit, resources] of lds) {
    const missing = resources?.flatMap(({ refs }) => refs).find((ref) => !exists(ref));
    if (missing === undefined) continue;
    lds.delete(unit);
    withheld.set(unit, `its routes ${missing} could not be generated`);
  }
  keepReferencedRoutes(lds, rds, current);
  for (const [unit, resources] of vhds)
    if (resources === undefined && current.rds.has(unit) && !(rds.has(unit) && rds.get(unit) === undefined))
      vhds.delete(unit);
  return { lds, rds, vhds, withheld, hostless };
}

/** Route units that refer to virtual hosts that do not exist: an Envoy would wait for them. */
function withoutVirtualHosts(rds: Edits, vhds: Edits, current: Units): Unit[] {
  const exists = (unit: Unit): boolean => (vhds.has(unit) ? vhds.get(unit) !== undefined : current.vhds.has(unit));
  const missing = [...rds].filter(([, resources]) => resources?.some(({ refs }) => !refs.every(exists)));
  return missing.map(([unit]) => unit);
}

/** Keeps route units that a remaining listener refers to; they are removed together with the listener. */
function keepReferencedRoutes(lds: Edits, rds: Edits, current: Units): void {
  const going = [...rds].filter(([unit, resources]) => resources === undefined && current.rds.has(unit));
  if (going.length === 0) return;
  const asked = new Set<string>();
  for (const [unit, resources] of current.lds) {
    if (!lds.has(unit)) for (const { refs } of resources) for (const ref of refs) asked.add(ref);
  }
  for (const [unit] of going) {
    if (current.rds.get(unit)?.some(({ name }) => asked.has(name))) rds.delete(unit);
  }
}

/** Applies edits to the units, in place. */
export function applyUnits(units: MutableUnits, changes: JobChanges['units']): void {
  for (const type of GENERATED_TYPES) {
    if (changes[type].size === 0) continue;
    if (units[type] === NO_UNITS) units[type] = new Map();
    applyEdits(units[type], changes[type]);
  }
}

export function applyEdits(units: Map<Unit, readonly EncodedResource[]>, edits: Edits): void {
  for (const [unit, resources] of edits) {
    if (resources === undefined) units.delete(unit);
    else units.set(unit, resources);
  }
}

/** Updates which clusters depend on the placement, for the units of a job. */
export function updatePlacedUnits(
  placed: Set<Unit>,
  { answer }: Pick<GeneratedJob, 'answer'>,
  failures: readonly UnitFailure[],
): void {
  if (answer.complete.includes('cds')) {
    const failed = new Set(failures.flatMap(({ type, unit }) => (type === 'cds' ? [unit] : [])));
    for (const unit of [...placed]) if (!failed.has(unit)) placed.delete(unit);
  }
  for (const { type, unit, placements } of answer.units) {
    if (type !== 'cds') continue;
    if (placements === undefined) placed.delete(unit);
    else placed.add(unit);
  }
}

/** The names of what is set in some units. */
export function namesOf(edits: readonly Edits[], units: ReadonlySet<Unit>): readonly string[] {
  if (units.size === 0) return [];
  const chosen = edits.flatMap((each) => [...each].filter(([unit]) => units.has(unit)));
  return [...new Set(chosen.flatMap(([, resources = []]) => resources.map(({ name }) => name)))];
}

/** The names of what units get that they did not have. */
export function addedNames(
  current: ReadonlyMap<Unit, readonly EncodedResource[]>,
  edits: Edits,
  units: 'all' | ReadonlySet<Unit>,
): readonly string[] {
  return [...(units === 'all' ? edits.keys() : units)].flatMap((unit) => {
    const made = edits.get(unit) ?? [];
    const before = made.length === 0 ? undefined : new Set(current.get(unit)?.map(({ name }) => name));
    return made.flatMap(({ name }) => (before?.has(name) === true ? [] : [name]));
  });
}
