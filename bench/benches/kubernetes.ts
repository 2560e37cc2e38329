/**
 * What reading a Kubernetes cluster costs: time to ready, CPU, memory and bytes from a real API server, beside the same
 * objects from a directory; then what changes cost while proxies are connected.
 */
import { writeFile } from 'node:fs/promises';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { tempDir } from '../../test/harness/files.ts';
import { kubeconfig, kubernetesUnavailable, startKubernetes } from '../../test/harness/kubernetes/index.ts';
import { createScope, type Owner } from '../../test/harness/owner.ts';
import type { Bench, BenchContext } from '../mesh.ts';
import type { Table } from '../results.ts';
import { measureStart, type ServerOptions, startServer } from '../server.ts';
import { directoryOf, load } from '../world/cluster.ts';
import { measureLive } from './kubernetes-live.ts';

const MIB = 1024 * 1024;

/** Passes connections on to the API server and counts what it sends. */
async function countingRelay(owner: Owner, target: number): Promise<{ port: number; bytes: () => number }> {
  let bytes = 0;
  const sockets = new Set<Socket>();
  const server = createServer((near) => {
    const far = connect(target, '127.0.0.1');
    far.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
    });
    for (const socket of [near, far]) sockets.add(socket.on('error', () => {}));
    near.pipe(far);
    far.pipe(near);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  owner.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, bytes: () => bytes };
}

type Source = Pick<ServerOptions, 'configDir' | 'kubeconfig'>;

function start({ program, profiles }: BenchContext, source: Source) {
  const env = { CTL_USE_ENDPOINT_SLICE: 'true' };
  return measureStart((owner) =>
    startServer(owner, { program, ...source, env, ...(profiles === undefined ? {} : { profiles }) }),
  );
}

async function measure(owner: Owner, context: BenchContext): Promise<readonly Table[]> {
  const { options, progress } = context;
  const cluster = await startKubernetes(owner);
  const relay = await countingRelay(owner, Number(new URL(cluster.url).port));
  progress('creating objects');
  const objects = await load(cluster, options);
  const file = join(await tempDir(owner), 'kubeconfig');
  await writeFile(file, kubeconfig({ ...cluster.as(cluster.admin), url: `https://127.0.0.1:${relay.port}` }));
  const folder = await directoryOf(owner, options);
  const rows: (string | number)[][] = [];
  // The peer reads Services from a cluster only.
  const sources: readonly (readonly [string, Source])[] = [
    ['API server', { kubeconfig: file }],
    ...(options.peer === '' ? [['directory', { configDir: folder }] as const] : []),
  ];
  for (let round = 0; round < options.rounds; round++) {
    for (const [name, source] of sources) {
      const before = relay.bytes();
      progress(`start from the ${name}`);
      const { milliseconds, cpu, rssMiB, peakMiB } = await start(context, source);
      const received = (relay.bytes() - before) / MIB;
      rows.push([name, objects, milliseconds, cpu, rssMiB, peakMiB, received]);
    }
  }
  const starts: Table = {
    title: `Start from a Kubernetes API server: ${objects} objects`,
    columns: ['source', 'objects', 'ms to ready', 'CPU s', 'RSS MiB', 'peak MiB', 'MiB received'],
    rows,
  };
  if (options.peer !== '') return [starts];
  const live = await measureLive(context, { cluster, folder, kubeconfig: file, received: relay.bytes });
  return [starts, ...live];
}

export const kubernetes: Bench = {
  name: 'kubernetes',
  about: 'a real API server beside a directory: start, one endpoint, idle, 100 endpoint updates a second',
  async run(context) {
    const reason = kubernetesUnavailable();
    if (reason !== undefined) {
      context.progress(`SKIPPED: ${reason}`);
      return { rows: [] };
    }
    const scope = createScope();
    try {
      return { rows: [], tables: await measure(scope, context) };
    } finally {
      await scope.close();
    }
  },
};
