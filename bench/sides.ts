/** Two meshes whose changes are measured by turns, each with its own server and proxies; one is idle meanwhile. */
import { type BenchContext, joinProxies, type Mesh, measureKind, type Round, roundsOf, rowOf, verify } from './mesh.ts';
import type { Row } from './results.ts';
import { addRound, createSeries, type Series } from './rounds.ts';
import type { ChangeKind } from './world/world.ts';

export interface Side {
  readonly name: string;
  readonly mesh: Mesh;
  readonly series: ReadonlyMap<ChangeKind, Series<Round>>;
}

export function sideOf(name: string, mesh: Mesh, kinds: readonly ChangeKind[]): Side {
  return { name, mesh, series: new Map(kinds.map((kind) => [kind, createSeries<Round>()])) };
}

/** Connects the proxies of all sides and measures their kinds of changes. @returns their rows, which have this name */
export async function measureSides(context: BenchContext, bench: string, sides: readonly Side[]): Promise<Row[]> {
  const { rounds, warmUp } = context.options;
  for (const { mesh } of sides) await joinProxies(context, mesh);
  for (let round = 1 - warmUp; round <= rounds; round++)
    for (const kind of sides[0]?.series.keys() ?? []) {
      context.progress(`${kind}, round ${round} of ${rounds}`);
      // Neither is always the first.
      for (const { mesh, series } of round % 2 === 0 ? sides : [...sides].reverse()) {
        const counted = series.get(kind);
        const measure = (attempt: number) => measureKind(context, mesh, kind, round, attempt);
        if (round < 1 || counted === undefined) await measure(0);
        else await addRound(roundsOf(context), counted, measure);
      }
    }
  const rows: Row[] = [];
  for (const { name, mesh, series } of sides) {
    const note = await verify(context, mesh);
    for (const [kind, each] of series) rows.push(rowOf(context, { bench, what: `${kind}, ${name}` }, mesh, each, note));
  }
  return rows;
}
