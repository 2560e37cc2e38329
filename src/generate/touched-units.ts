/** Which units a change touches, according to the facts that were read for them. */
import type { ServiceKey } from '../model/index.ts';
import type { ChangedFacts, FactChanges } from './changed-facts.ts';
import { scopeIdOfView } from './common/index.ts';
import type { Facts } from './reads/index.ts';
import { GENERATED_TYPES, type GeneratedType, type TypeReads, type Unit, type UnitSelection } from './types.ts';
import type { View } from './views.ts';

export const ALL_UNITS = {
  cds: 'all',
  sds: 'all',
  ecds: 'all',
  lds: 'all',
  rds: 'all',
  vhds: 'all',
  nds: 'all',
} as const satisfies Required<UnitSelection>;

export function hostOfServiceKey(key: ServiceKey): string {
  return key.slice(key.indexOf('/') + 1);
}

/** Collects the units of a view that have to be generated again. */
export class TouchedUnits {
  readonly #units: Partial<Record<GeneratedType, 'all' | Set<Unit>>> = {};

  add(type: GeneratedType, units: Iterable<Unit>): void {
    const known = this.#units[type];
    if (known === 'all') return;
    const marked = known ?? new Set();
    for (const unit of units) marked.add(unit);
    if (marked.size > 0) this.#units[type] = marked;
  }

  all(type: GeneratedType): void {
    this.#units[type] = 'all';
  }

  /**
   * Marks a list of units of which a fact changed. @param members units that may be new; undefined if any unit may be
   */
  list(type: GeneratedType, members: ReadonlySet<Unit> | undefined): void {
    if (members === undefined) this.all(type);
    else this.add(type, members);
  }

  /** Undefined when there are none. */
  selection(): UnitSelection | undefined {
    return Object.keys(this.#units).length === 0 ? undefined : this.#units;
  }
}

/** The units of a view that a change touches, among those with recorded reads; undefined for none. */
export function touchedUnits(
  reads: Readonly<Partial<Record<GeneratedType, TypeReads>>>,
  { everything, meshWide, scopes }: ChangedFacts,
  view: View,
): UnitSelection | undefined {
  if (everything) return ALL_UNITS;
  const changes = [meshWide, scopes.get(scopeIdOfView(view)) ?? new Map()];
  const touched = new TouchedUnits();
  for (const type of GENERATED_TYPES) {
    const ofType = reads[type];
    if (ofType === undefined) continue;
    for (const [, members] of changedAmong(ofType.list ?? [], changes)) touched.list(type, members);
    for (const [unit, facts] of ofType.units) {
      if (changedAmong(facts, changes).length > 0) touched.add(type, [unit]);
    }
  }
  return touched.selection();
}

function changedAmong(
  facts: Facts,
  changes: readonly FactChanges[],
): [fact: string, members: ReadonlySet<Unit> | undefined][] {
  return facts.flatMap((fact) =>
    changes.flatMap((changed): [string, ReadonlySet<Unit> | undefined][] =>
      changed.has(fact) ? [[fact, changed.get(fact)]] : [],
    ),
  );
}
