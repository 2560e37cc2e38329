/** The localities of the mesh's endpoints, and their regions and zones. */
import { PMap } from '../../core/pmap.ts';
import { type Counts, nextCounts } from '../common/counts.ts';

export interface LocalityNames {
  /** Locality (`region/zone/subzone`) → number of services that have endpoints in it. */
  readonly counts: PMap<number>;
  /** Regions, zones (`region/zone`) and subzones (`region/zone/subzone`); the same object until they change. */
  readonly all: ReadonlySet<string>;
}

export const NO_LOCALITY_NAMES: LocalityNames = { counts: PMap.empty(), all: new Set() };

export function namesOfLocality(locality: string): readonly [region: string, zone: string, subzone: string] {
  const [region = '', zone = '', subzone = ''] = locality.split('/');
  return [region, `${region}/${zone}`, `${region}/${zone}/${subzone}`];
}

export function nextLocalityNames(
  places: LocalityNames,
  moves: Iterable<{ readonly before: Counts; readonly after: Counts }>,
): LocalityNames {
  const counts = nextCounts(places.counts, moves);
  if (counts === places.counts) return places;
  const same = counts
    .changedKeys(places.counts)
    .every((locality) => counts.has(locality) === places.counts.has(locality));
  return { counts, all: same ? places.all : new Set([...counts.keys()].flatMap(namesOfLocality)) };
}
