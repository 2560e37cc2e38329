/** Changes that are measured while the server does something else, by turns with the same changes alone. */
import { type BenchContext, type Load, type Mesh, measureChange, type Round, roundsOf } from './mesh.ts';
import { addRound, createSeries, type Series } from './rounds.ts';

/** Work that goes on until `signal` is aborted. */
export function loadOf(work: (signal: AbortSignal) => Promise<unknown>): Load {
  const ended = new AbortController();
  const working = work(ended.signal);
  // The caller learns of a failure at the end.
  working.catch(() => {});
  return {
    async end() {
      ended.abort();
      await working;
    },
  };
}

/**
 * Measures one changed route by turns: alone, and under a load. Nothing is kept of the rounds for warming up.
 * @param after called after each round: the first one that counts is 1
 */
export async function routesByTurns(
  context: BenchContext,
  mesh: Mesh,
  load: () => Load,
  after = async (_round: number): Promise<void> => {},
): Promise<{ readonly alone: Series<Round>; readonly loaded: Series<Round> }> {
  const { rounds, warmUp } = context.options;
  const [alone, loaded] = [createSeries<Round>(), createSeries<Round>()];
  let version = 0;
  const changes = [{}, { load }].map(
    (options) =>
      (attempt = 0) =>
        measureChange(context, mesh, mesh.world.change('route', ++version, attempt), options),
  );
  for (let round = 1 - warmUp; round <= rounds; round++) {
    context.progress(`round ${round} of ${rounds}`);
    for (const [index, change] of changes.entries()) {
      if (round < 1) await change();
      else await addRound(roundsOf(context), index === 0 ? alone : loaded, change);
    }
    await after(round);
  }
  return { alone, loaded };
}
