/** For tests of what a change touches. */
import type { ChangeSet, Snapshot } from '../../model/types/types.ts';
import { changedFacts } from '../changed-facts.ts';
import { generate } from '../generate.ts';
import { ALL_UNITS, touchedUnits } from '../touched-units.ts';
import type { UnitSelection } from '../types.ts';
import type { View } from '../views.ts';

/** The units of a view that a change touches, according to what generating all of it read before. */
export function affectedUnits(
  previous: Snapshot,
  next: Snapshot,
  change: ChangeSet,
  view: View,
): UnitSelection | undefined {
  const { reads } = generate(previous, view, ALL_UNITS);
  return touchedUnits(reads, changedFacts(previous, next, change), view);
}
