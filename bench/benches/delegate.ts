/** Routes that a VirtualService delegates to another one are edited, by turns with routes that are nobody's delegates. */
import { type Bench, joinProxies, measureChange, type Round, roundsOf, rowOf, verify, withMesh } from '../mesh.ts';
import { addRound, createSeries } from '../rounds.ts';

export const delegate: Bench = {
  name: 'delegate',
  about: 'a delegate VirtualService is edited: as fast as one route',
  run: (context) =>
    withMesh(context, { env: { CTL_ENABLE_VIRTUAL_SERVICE_DELEGATE: 'true' } }, async (mesh) => {
      const { rounds, warmUp } = context.options;
      await joinProxies(context, mesh);
      let version = 0;
      // Its first version adds the document that delegates.
      await measureChange(context, mesh, mesh.world.delegate(version));
      const [route, edited] = [createSeries<Round>(), createSeries<Round>()];
      for (let round = 1 - warmUp; round <= rounds; round++) {
        context.progress(`round ${round} of ${rounds}`);
        const changeRoute = (attempt = 0) =>
          measureChange(context, mesh, mesh.world.change('route', round + warmUp, attempt));
        const editDelegate = () => measureChange(context, mesh, mesh.world.delegate(++version));
        if (round < 1) {
          await changeRoute();
          await editDelegate();
        } else {
          await addRound(roundsOf(context), route, changeRoute);
          await addRound(roundsOf(context), edited, editDelegate);
        }
      }
      const note = await verify(context, mesh);
      return {
        rows: [
          rowOf(context, { bench: 'delegate', what: 'route' }, mesh, route),
          rowOf(context, { bench: 'delegate', what: 'delegate edited' }, mesh, edited, note),
        ],
      };
    }),
};
