/** A stream's subscription of one type: the wildcard, names, or both. */
import { CtlError } from '../../core/errors.ts';
import { type NameSet, type NameSets, NO_NAMES, onlyName } from './name-set.ts';

export interface Interest {
  readonly wildcard: boolean;
  /** Names that were asked for explicitly, besides the wildcard. */
  readonly names: NameSet;
}

export function covers(interest: Interest, name: string): boolean {
  return interest.wildcard || interest.names.has(name);
}

/**
 * The name of the explicit wildcard
 * (xDS protocol, "How the client specifies what resources to return").
 */
export const WILDCARD = '*';

const ONLY_WILDCARD = onlyName(WILDCARD);

/** The resource names of a request: all but the wildcard. */
export function withoutWildcard(names: NameSet, sets: NameSets): NameSet {
  return names.has(WILDCARD) ? sets.change(names, NO_NAMES, ONLY_WILDCARD) : names;
}

/**
 * The maximum number of names of a type that one stream may subscribe to: as many as two of the largest requests have.
 */
export const MAX_SUBSCRIBED_NAMES = 200_000;

/** Throws CtlError invalid_argument if a stream names more resources of a type. */
export function limitNames(names: number): void {
  if (names <= MAX_SUBSCRIBED_NAMES) return;
  throw new CtlError('invalid_argument', `a stream may name at most ${MAX_SUBSCRIBED_NAMES} resources of a type`);
}
