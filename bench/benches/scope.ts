/**
 * One Sidecar changes in a mesh with many services, where each namespace has a Sidecar that shows its one proxy fifty
 * of them.
 */
import {
  type Bench,
  type BenchContext,
  joinProxies,
  measureChange,
  roundsOf,
  rowOf,
  verify,
  withMesh,
} from '../mesh.ts';
import type { Outcome, Row } from '../results.ts';
import { runRounds } from '../rounds.ts';
import { scopedNamespace } from '../world/world.ts';

/** At full size (`--services 1000`) the mesh has 10,000 services and 500 Sidecars. */
const SERVICES_FACTOR = 10;
const SIDECARS_FACTOR = 0.5;

async function scopeRows(context: BenchContext, services: number, sidecars: number): Promise<Row[]> {
  const proxyNamespaces = Array.from({ length: sidecars }, (_, index) => scopedNamespace(index));
  const size = { services, proxies: sidecars };
  return withMesh(context, { size, world: { sidecars } }, async (mesh) => {
    const { rounds } = context.options;
    await joinProxies(context, mesh, { namespaces: proxyNamespaces });
    const changed = await runRounds(roundsOf(context), context.options, (round, attempt) => {
      context.progress(`Sidecar of ${services} services, round ${round} of ${rounds}`);
      const index = round % sidecars;
      return measureChange(context, mesh, mesh.world.scope(index, round + attempt), { proxies: [index] });
    });
    const verdict = await verify(context, mesh);
    const what = `1 of ${sidecars} Sidecars changed`;
    return [rowOf(context, { bench: 'scope', what }, mesh, changed, verdict)];
  });
}

export const scope: Bench = {
  name: 'scope',
  about: 'Sidecars of 50 hosts: one is changed, with the given number of services and with ten times as many',
  async run(context): Promise<Outcome> {
    const { services } = context.options;
    const sidecars = Math.max(2, Math.round(services * SIDECARS_FACTOR));
    const small = await scopeRows(context, services, sidecars);
    const large = await scopeRows(context, services * SERVICES_FACTOR, sidecars);
    return { rows: [...small, ...large] };
  },
};
