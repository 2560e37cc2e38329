/** Where the endpoints of the mesh are: their localities and the regions and zones that these are in. */
import { PMap } from '../core/pmap.ts';
import type { Endpoint } from './types.ts';

export interface Places {
  /** Locality (`region/zone/subzone`) → number of services that have endpoints in it. */
  readonly counts: PMap<number>;
  /** Regions, zones (`region/zone`) and subzones (`region/zone/subzone`); the same object for as long as they are the same. */
  readonly all: ReadonlySet<string>;
}

export const NO_PLACES: Places = { counts: PMap.empty(), all: new Set() };

/** Locality → number of a service's endpoints in it. */
export type Localities = ReadonlyMap<string, number>;

export const NO_LOCALITIES: Localities = new Map();

/** The localities after a change of endpoints; the same object when none has more or fewer. */
export function countLocalities(
  before: Localities,
  { removed, added }: { readonly removed: Iterable<Endpoint>; readonly added: Iterable<Endpoint> },
): Localities {
  const edits = new Map<string, number>();
  for (const { locality } of removed) edits.set(locality, (edits.get(locality) ?? 0) - 1);
  for (const { locality } of added) edits.set(locality, (edits.get(locality) ?? 0) + 1);
  const changed = [...edits].filter(([, by]) => by !== 0);
  if (changed.length === 0) return before;
  const after = new Map(before);
  for (const [locality, by] of changed) {
    const number = (after.get(locality) ?? 0) + by;
    if (number === 0) after.delete(locality);
    else after.set(locality, number);
  }
  return after;
}

/** The region, the zone and the subzone of a locality. */
export function placesOfLocality(locality: string): readonly [region: string, zone: string, subzone: string] {
  const [region = '', zone = '', subzone = ''] = locality.split('/');
  return [region, `${region}/${zone}`, `${region}/${zone}/${subzone}`];
}

/** The places after services have gone from some localities to others. */
export function nextPlaces(
  places: Places,
  moves: Iterable<{ readonly before: Localities; readonly after: Localities }>,
): Places {
  const changed = new Map<string, number>();
  const count = (locality: string, by: number): void => {
    changed.set(locality, (changed.get(locality) ?? places.counts.get(locality) ?? 0) + by);
  };
  for (const { before, after } of moves) {
    if (before === after) continue;
    for (const locality of before.keys()) if (!after.has(locality)) count(locality, -1);
    for (const locality of after.keys()) if (!before.has(locality)) count(locality, 1);
  }
  if (changed.size === 0) return places;
  const counts = places.counts.with(
    [...changed].map(([locality, number]) => [locality, number === 0 ? undefined : number]),
  );
  const same = [...changed.keys()].every((locality) => counts.has(locality) === places.counts.has(locality));
  return { counts, all: same ? places.all : new Set([...counts.keys()].flatMap(placesOfLocality)) };
}
