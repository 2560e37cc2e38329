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

/** The localities of these endpoints, each once, sorted. */
export function localitiesOf(endpoints: readonly Endpoint[]): readonly string[] {
  return [...new Set(endpoints.map(({ locality }) => locality))].sort();
}

/** The region, the zone and the subzone of a locality. */
export function placesOfLocality(locality: string): readonly [region: string, zone: string, subzone: string] {
  const [region = '', zone = '', subzone = ''] = locality.split('/');
  return [region, `${region}/${zone}`, `${region}/${zone}/${subzone}`];
}

/** The places after services have gone from some localities to others. */
export function nextPlaces(
  places: Places,
  moves: Iterable<{ readonly before: readonly string[]; readonly after: readonly string[] }>,
): Places {
  const changed = new Map<string, number>();
  const count = (locality: string, by: number): void => {
    changed.set(locality, (changed.get(locality) ?? places.counts.get(locality) ?? 0) + by);
  };
  for (const { before, after } of moves) {
    if (before === after) continue;
    for (const locality of before) count(locality, -1);
    for (const locality of after) count(locality, 1);
  }
  if (changed.size === 0) return places;
  const counts = places.counts.with(
    [...changed].map(([locality, number]) => [locality, number === 0 ? undefined : number]),
  );
  const same = [...changed.keys()].every((locality) => counts.has(locality) === places.counts.has(locality));
  return { counts, all: same ? places.all : new Set([...counts.keys()].flatMap(placesOfLocality)) };
}
