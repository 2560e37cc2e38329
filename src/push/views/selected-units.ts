/** Units by type, of which a set grows. */
import type { GeneratedType, Unit } from '../../generate/index.ts';

export type SelectedUnits = Map<GeneratedType, 'all' | ReadonlySet<Unit>>;

export function addUnits(units: SelectedUnits, type: GeneratedType, more: 'all' | ReadonlySet<Unit>): void {
  const known = units.get(type);
  if (known === 'all') return;
  units.set(type, more === 'all' || known === undefined ? more : known.union(more));
}

/** The same for a message. */
export function inOrder(selected: SelectedUnits): Partial<Record<GeneratedType, 'all' | readonly Unit[]>> {
  return Object.fromEntries(
    Array.from(selected, ([type, units]) => [type, units === 'all' ? 'all' : [...units].sort()]),
  );
}
