/** Resident memory of the server per connected proxy, and one view with many proxies: one generation. */
import { quiet } from '../counters.ts';
import { type Bench, joinProxies, memory, withMesh } from '../mesh.ts';
import type { Row } from '../results.ts';
import { namespaceName } from '../world/world.ts';

const KIB = 1024;

const kibPerProxy = (mib: number, proxies: number): string => ((mib * KIB) / proxies).toFixed(0);

export const memoryPerProxy: Bench = {
  name: 'memory',
  about: 'resident memory per connected proxy; generations for one view with many proxies',
  run: (context) =>
    withMesh(context, {}, async (mesh) => {
      const { server, size } = mesh;
      const namespaces = [namespaceName(0)];
      const generations = async (): Promise<number> =>
        (await server.samples()).get('ctl_stage_seconds_count{stage="generate"}') ?? 0;
      const rows: Row[] = [];
      let before: { proxies: number; rssMiB: number; generations: number } | undefined;
      // The first proxy creates the view. The memory that the others add is their own.
      for (const proxies of [1, Math.max(2, Math.ceil(size.proxies / 2)), Math.max(3, size.proxies)]) {
        await joinProxies(context, mesh, { count: proxies, namespaces });
        await quiet(mesh);
        const now = { proxies, rssMiB: memory(mesh).rssMiB, generations: await generations() };
        const each =
          before === undefined
            ? ''
            : `${kibPerProxy(now.rssMiB - before.rssMiB, now.proxies - before.proxies)} KiB per added proxy; `;
        rows.push({
          bench: 'memory',
          what: `${proxies} ${proxies === 1 ? 'proxy' : 'proxies'} of one view`,
          size: { ...size, proxies },
          ...memory(mesh),
          note: `${each}${now.generations} generations since the start`,
        });
        before = now;
      }
      return { rows };
    }),
};
