/**
 * Chooses the EnvoyFilters that a unit is made with where the current ones do not all fit. Without the whole unit,
 * proxies would lose more than the mistake concerns; without all patches, a namespace could get rid of the root
 * namespace's. So one EnvoyFilter is replaced at a time, by the version that the unit was last made with. All patches
 * of an EnvoyFilter for a unit are of one version: one may remove what another one replaces.
 */
import type { ResourceKey } from '../../resources/index.ts';
import type { AppliedFilter, FormerFilter, Misfit, UnitOutput } from '../types.ts';

/** What the unit was last made with, by EnvoyFilter. */
export type Former = ReadonlyMap<ResourceKey, FormerFilter>;

interface Fitted {
  /** Undefined: the unit fits no EnvoyFilter. */
  readonly output: UnitOutput | undefined;
  readonly misfits: readonly Misfit[];
}

/** Most EnvoyFilters that are replaced one by one; where more do not fit, all later ones are left out. */
const MAX_REPLACED = 8;
/** Maximum attempts with former versions for a unit. */
const MAX_FORMER_ATTEMPTS = 32;

/** By position; undefined: left out. */
type Choice = readonly (FormerFilter | undefined)[];

/** @param make throws where one of the EnvoyFilters does not fit */
export function fitting(
  current: readonly AppliedFilter[],
  former: Former,
  make: (filters: readonly FormerFilter[]) => UnitOutput,
): Fitted {
  const attempt = (choice: Choice): UnitOutput | undefined => {
    try {
      return make(choice.filter((filter) => filter !== undefined));
    } catch {
      return undefined;
    }
  };
  let choice: Choice = current;
  let attempts = MAX_FORMER_ATTEMPTS;
  for (let replaced = 0; ; replaced++) {
    const { count, output } = longest(choice, attempt);
    if (count === choice.length) return { output, misfits: listMisfits(current, choice) };
    if (replaced === MAX_REPLACED) return { output, misfits: listMisfits(current, choice.slice(0, count)) };
    let next: Choice | undefined;
    for (const candidate of replacements(choice, count, former)) {
      if (attempts-- <= 0) break;
      if (attempt(candidate.slice(0, count + 1)) === undefined) continue;
      next = candidate;
      break;
    }
    choice = next ?? choice.with(count, undefined);
  }
}

/** The first `count` filters fit together, and with the next one they do not. */
function longest(
  choice: Choice,
  attempt: (choice: Choice) => UnitOutput | undefined,
): { readonly count: number; readonly output: UnitOutput | undefined } {
  let good = 0;
  let bad = choice.length + 1;
  let output: UnitOutput | undefined;
  for (let count = choice.length; good < count && count < bad; count = (good + bad) >> 1) {
    const made = attempt(choice.slice(0, count));
    if (made === undefined) bad = count;
    else [good, output] = [count, made];
  }
  return { count: good, output };
}

/**
 * What to try in place of a choice of which the filter at a position does not fit those before it: its former version;
 * then, because these may be at fault, the former versions of other changed EnvoyFilters of its namespace, the nearest
 * first, and at last all of them. A tenant's EnvoyFilter never replaces one of the root namespace.
 */
function* replacements(choice: Choice, at: number, former: Former): Generator<Choice> {
  const culprit = choice[at];
  // The unit never fit: no other EnvoyFilter is the cause.
  if (culprit === undefined || !former.has(culprit.key)) return;
  const base = hasChanged(culprit, former) ? choice.with(at, former.get(culprit.key)) : choice;
  if (base !== choice) yield base;
  const earlier = choice.slice(0, at).flatMap((filter, index) => {
    return filter && namespaceOf(filter) === namespaceOf(culprit) && hasChanged(filter, former) ? [index] : [];
  });
  const reverted = (from: Choice, index: number): Choice => from.with(index, former.get(choice[index]?.key ?? ''));
  for (const index of earlier.toReversed()) yield reverted(base, index);
  if (earlier.length > 1) yield earlier.reduce(reverted, base);
}

/** Whether it is the current version, and the unit was last made with another one or without it. */
function hasChanged({ key, content }: FormerFilter, former: Former): boolean {
  if (content !== undefined) return false;
  const known = former.get(key);
  return known === undefined || known.content !== undefined;
}

/** `EnvoyFilter/namespace/name` */
function namespaceOf({ key }: AppliedFilter): string | undefined {
  return key.split('/')[1];
}

function listMisfits(current: readonly AppliedFilter[], choice: Choice): readonly Misfit[] {
  return current.flatMap(({ key }, index): Misfit[] => {
    const chosen = choice[index];
    if (chosen === undefined) return [{ key, use: 'nothing' }];
    return chosen.content === undefined ? [] : [{ key, use: 'former version' }];
  });
}
