/**
 * An EnvoyFilter for the whole mesh is edited: each view is generated once, and each proxy gets the resources that
 * change.
 */
import { type Bench, joinProxies, measureChange, roundsOf, rowOf, verify, withMesh } from '../mesh.ts';
import { sinceByLabel } from '../metrics.ts';
import { mean } from '../results.ts';
import { runRounds } from '../rounds.ts';

export const envoyFilter: Bench = {
  name: 'envoy-filter',
  about: 'an EnvoyFilter for all proxies is edited: it patches a listener and a virtual host',
  run: (context) =>
    withMesh(context, {}, async (mesh) => {
      const { rounds } = context.options;
      await joinProxies(context, mesh);
      let version = 0;
      // Its first version is another change: all units of listeners and routes are generated with patches from then on.
      await measureChange(context, mesh, mesh.world.filter(version));
      const edited = await runRounds(roundsOf(context), context.options, (round) => {
        context.progress(`edit ${round} of ${rounds}`);
        return measureChange(context, mesh, mesh.world.filter(++version));
      });
      const verdict = await verify(context, mesh);
      const generations = edited.counted.map(
        ({ before, after }) => sinceByLabel(before, after, 'ctl_stage_seconds').get('generate')?.count ?? 0,
      );
      const note = `${mean(generations)} generations a round; ${verdict}`;
      return { rows: [rowOf(context, { bench: 'envoy-filter', what: 'edited' }, mesh, edited, note)] };
    }),
};
