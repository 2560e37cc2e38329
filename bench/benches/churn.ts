/** Endpoint changes at a steady rate and a new service every ten seconds, for a while. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Arrivals } from '../client/messages.ts';
import { lostIn, quiet } from '../counters.ts';
import { type Bench, complete, joinProxies, memory, nextWatch, verify, withMesh } from '../mesh.ts';
import { latencyOf, type Row } from '../results.ts';
import { tallyOf } from '../rounds.ts';
import { monotonicMs } from '../world/clock.ts';
import type { Change } from '../world/world.ts';

const SERVICE_EVERY_MS = 10_000;

export const churn: Bench = {
  name: 'churn',
  about: `--changes endpoint changes per second and a service every ${SERVICE_EVERY_MS / 1000} s`,
  run: (context) =>
    withMesh(context, {}, async (mesh) => {
      const { client, world } = mesh;
      const { seconds, timeoutMs, changes: perSecond } = context.options;
      await joinProxies(context, mesh);
      const before = await quiet(mesh);
      const pending = { endpoint: [] as Promise<number[]>[], service: [] as Promise<number[]>[] };
      /**
       * Makes a change and measures the milliseconds until each proxy has it. Does not wait: other changes follow
       * meanwhile.
       */
      const begin = async (kind: keyof typeof pending, change: Change): Promise<void> => {
        const watch = nextWatch();
        await client.do({ op: 'watch', watch, predicates: change.expect });
        const at = await world.apply(change);
        const arrived = client
          .do({ op: 'arrived', watch, timeoutMs })
          .then((arrivals: Arrivals) => complete(arrivals, `the change of ${change.path}`).at.map((each) => each - at));
        // A failure is thrown where all of them are awaited.
        arrived.catch(() => {});
        pending[kind].push(arrived);
      };
      const started = monotonicMs();
      let services = 0;
      for (let step = 0; step < seconds * perSecond; step++) {
        if (step % (5 * perSecond) === 0) context.progress(`churn, ${step / perSecond} of ${seconds} s`);
        const at = (step * 1000) / perSecond;
        if (at >= services * SERVICE_EVERY_MS + SERVICE_EVERY_MS / 2) {
          await begin('service', world.change('service added', services));
          services++;
        }
        await begin('endpoint', world.endpoint(step, step + 1));
        await delay(Math.max(0, started + at + 1000 / perSecond - monotonicMs()));
      }
      const lasted = (monotonicMs() - started) / 1000;
      const endpoint = (await Promise.all(pending.endpoint)).flat();
      const service = (await Promise.all(pending.service)).flat();
      const after = await quiet(mesh);
      const verdict = await verify(context, mesh);
      // One long round that is never repeated.
      const series = { counted: [{ lost: lostIn(before, after) }], thrownAway: 0 };
      const rounds = tallyOf(series, context.options.policy);
      const all = {
        serverCpu: after.serverCpu - before.serverCpu,
        clientCpu: after.totals.cpuSeconds - before.totals.cpuSeconds,
        bytes: after.totals.bytes - before.totals.bytes,
        messages: after.totals.messages - before.totals.messages,
        resources: after.totals.resources - before.totals.resources,
        ...memory(mesh),
      };
      const rows: Row[] = [
        {
          bench: 'churn',
          what: `endpoint, ${perSecond} a second`,
          size: mesh.size,
          ...latencyOf([endpoint]),
          rounds,
          ...all,
          note: `${pending.endpoint.length} changes in ${lasted.toFixed(1)} s; sums are of all changes; ${verdict}`,
        },
      ];
      if (service.length > 0)
        rows.push({ bench: 'churn', what: 'service added', size: mesh.size, ...latencyOf([service]), rounds });
      return { rows };
    }),
};
