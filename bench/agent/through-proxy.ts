/**
 * What the whole configuration costs on its way through the XDS proxy of an agent: time, CPU time and memory of the
 * agent, when the control plane compresses it and when it does not.
 */

import { freePort } from '../../test/harness/files.ts';
import { startClient } from '../client/client.ts';
import type { OpenCommand } from '../client/messages.ts';
import { type BenchContext, complete, withMesh } from '../mesh.ts';
import { cpuSeconds, memoryOf } from '../process-stats.ts';
import { median, type Table } from '../results.ts';
import { monotonicMs } from '../world/clock.ts';
import { namespaceName } from '../world/world.ts';
import { authority, startBenchAgent } from './agents.ts';

/** Times that a proxy connects to the agent; the first ones, until the code of the agent is compiled, do not count. */
const CONNECTIONS = 15;
const WARM_UP = 5;
/** Proxies beside it, with the same configuration. */
const BESIDE = 4;

interface Round {
  readonly ms: number;
  readonly cpuMs: number;
}

export async function throughProxy(context: BenchContext): Promise<Table> {
  const { services } = context.options;
  const rows: (readonly (string | number)[])[] = [];
  for (const compression of [false, true]) rows.push(await measured(context, compression));
  return {
    title: `The whole configuration through the XDS proxy of an agent: ${services} services (median of ${CONNECTIONS})`,
    columns: ['between control plane and agent', 'ms', 'CPU of the agent ms', 'RSS of the agent MiB', 'at most'],
    rows,
  };
}

function measured(context: BenchContext, compression: boolean): Promise<readonly (string | number)[]> {
  const env = { CTL_XDS_COMPRESSION: String(compression) };
  const what = compression ? 'compressed' : 'as it is';
  return withMesh(context, { env, size: { security: 'plain' } }, async ({ size, client, server }, owner) => {
    const [{ env: certificates }, port] = [await authority(owner), await freePort()];
    const open = async (from: typeof client, to: Partial<OpenCommand>): Promise<void> => {
      const { mode, content } = size;
      const namespaces = [namespaceName(0)];
      await from.do({ op: 'open', port, mode, content, count: 1, namespaces, slow: 0, ...to });
      complete(await from.do({ op: 'synced', timeoutMs: context.options.timeoutMs }), 'the first configuration');
    };
    // The configuration is compressed when several proxies have it.
    await open(client, { port: server.ports.grpc, count: BESIDE, gzip: true });
    const agent = await startBenchAgent(owner, context, {
      discoveryPort: server.ports.grpc,
      envoy: '',
      env: { ...certificates, DISABLE_ENVOY: 'true', XDS_LOCAL: `:${port}` },
      waitReady: false,
    });
    const envoy = startClient(owner);
    const rounds: Round[] = [];
    for (let round = 0; round < WARM_UP + CONNECTIONS; round++) {
      context.progress(`${what}, connection ${round + 1}`);
      const [started, before] = [monotonicMs(), cpuSeconds(agent.pid)];
      await open(envoy, {});
      rounds.push({ ms: monotonicMs() - started, cpuMs: (cpuSeconds(agent.pid) - before) * 1000 });
    }
    const counted = rounds.slice(WARM_UP);
    const figures = [median(counted.map(({ ms }) => ms)), median(counted.map(({ cpuMs }) => cpuMs))];
    const { rssMiB, peakMiB } = memoryOf(agent.pid);
    return [what, ...figures.map(Math.round), Math.round(rssMiB), Math.round(peakMiB)];
  });
}
