/**
 * What a job's answer changes in a view: units replaced, resources set and removed. Worked out before anything is touched, so
 * that an answer that cannot be taken over leaves the view as it was. What was generated apart is made to fit here: no listener
 * is taken whose routes are missing (an Envoy would wait for them), no route goes that a listener still asks for.
 */
import type { EncodedSlot, UnitAnswer } from '../../workers/protocol.ts';
import { GENERATED_TYPES, type GeneratedType, type Unit } from '../generate/types.ts';
import type { GeneratedJob } from './generator.ts';
import type { Interner } from './interner.ts';
import type { EncodedResource } from './types.ts';

/** The units of a view as they are. */
export type Units = Readonly<Record<GeneratedType, ReadonlyMap<Unit, readonly EncodedResource[]>>>;

export interface UnitFailure {
  readonly type: GeneratedType;
  readonly unit: Unit;
  readonly message: string;
}

export interface JobChanges {
  /** Units replaced; undefined: gone. */
  readonly units: Record<GeneratedType, Map<Unit, readonly EncodedResource[] | undefined>>;
  /** Failures of the answer, and listeners that are held back. Their units stay as they are. */
  readonly failures: readonly UnitFailure[];
  /** Listener units among the failures that wait for routes. */
  readonly withheld: ReadonlySet<Unit>;
}

export function jobChanges(job: GeneratedJob, current: Units, interner: Interner): JobChanges {
  const apart = { cds: edits(job, 'cds', current, interner), sds: edits(job, 'sds', current, interner) };
  const units = { ...apart, ...fitted(job, current, interner) };
  const { withheld, ...changed } = units;
  return {
    units: { cds: changed.cds, sds: changed.sds, lds: changed.lds, rds: changed.rds },
    failures: [
      ...job.answer.failures,
      ...[...withheld].map(([unit, message]) => ({ type: 'lds', unit, message }) as const),
    ],
    withheld: new Set(withheld.keys()),
  };
}

/** Resources set and (undefined) removed by replacing units. Removals first: a name may move from one unit to another. */
export function resourceChanges(
  current: ReadonlyMap<Unit, readonly EncodedResource[]>,
  units: ReadonlyMap<Unit, readonly EncodedResource[] | undefined>,
): Map<string, EncodedResource | undefined> {
  const changes = new Map<string, EncodedResource | undefined>();
  for (const unit of units.keys()) for (const { name } of current.get(unit) ?? []) changes.set(name, undefined);
  for (const resources of units.values()) for (const resource of resources ?? []) changes.set(resource.name, resource);
  return changes;
}

type Edits = Map<Unit, readonly EncodedResource[] | undefined>;

function edits(job: GeneratedJob, type: GeneratedType, current: Units, interner: Interner): Edits {
  const { answer, recalled, heard } = job;
  const message = new Uint8Array(job.bytes);
  const found: Edits = new Map();
  if (answer.complete.includes(type)) {
    const failed = new Set(answer.failures.filter((failure) => failure.type === type).map(({ unit }) => unit));
    for (const unit of current[type].keys()) if (!failed.has(unit)) found.set(unit, undefined);
  }
  for (const { type: listed, unit, number, resources } of answer.units) {
    if (listed !== type) continue;
    const known = recalled.get(number);
    const made =
      known ??
      told(resources).map(({ name, version, refs, offset, length }) =>
        interner.intern(type, name, version, refs, () => message.subarray(offset, offset + length)),
      );
    if (known === undefined) heard.hear(number, made);
    found.set(unit, made.length === 0 ? undefined : made);
  }
  return found;
}

function told(resources: UnitAnswer['resources']): readonly EncodedSlot[] {
  if (resources === undefined) throw new TypeError('a unit that is not told was recalled');
  return resources;
}

/** Listeners and routes that fit each other. */
function fitted(
  job: GeneratedJob,
  current: Units,
  interner: Interner,
): { lds: Edits; rds: Edits; withheld: Map<Unit, string> } {
  const lds = edits(job, 'lds', current, interner);
  const rds = edits(job, 'rds', current, interner);
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
  keepAskedFor(lds, rds, current);
  return { lds, rds, withheld };
}

/** Route units that would go although a listener that stays asks for them: they go when it does. */
function keepAskedFor(lds: Edits, rds: Edits, current: Units): void {
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

/** The units with edits applied, in place. */
export function applyUnits(
  units: Record<GeneratedType, Map<Unit, readonly EncodedResource[]>>,
  changes: JobChanges['units'],
): void {
  for (const type of GENERATED_TYPES) {
    for (const [unit, resources] of changes[type]) {
      if (resources === undefined) units[type].delete(unit);
      else units[type].set(unit, resources);
    }
  }
}
