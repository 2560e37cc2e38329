/**
 * A real Envoy that asks for the virtual hosts that it uses, beside one that gets everything: time until it is ready,
 * memory, bytes, lines of statistics, and what the first request to a service costs in addition. The first request also
 * makes Envoy connect to the application: the Envoy that has everything shows what that takes.
 *
 * The first Envoy on demand is the first proxy of its workload, for which everything is generated.
 */
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type Envoy, startEnvoy } from '../../test/harness/envoy.ts';
import { eventually } from '../../test/harness/eventually.ts';
import { request } from '../../test/harness/http.ts';
import type { Owner } from '../../test/harness/owner.ts';
import { quiet } from '../counters.ts';
import { type BenchContext, type Mesh, withMesh } from '../mesh.ts';
import { median, quantiles, type Table } from '../results.ts';
import { monotonicMs } from '../world/clock.ts';
import { HTTP_PORT, head } from '../world/documents.ts';
import { namespaceName } from '../world/world.ts';

const MIB = 1024 * 1024;
/** Services that are called once, and then once more. */
const CALLED = 200;

/** The Envoys listen at the port of the services: only these have routes there. */
const ADDRESSES = { all: '127.77.0.1', 'on-demand': '127.77.0.2' };
type Measured = keyof typeof ADDRESSES;
const MEASURED = Object.keys(ADDRESSES) as Measured[];
/** How often an Envoy that starts is asked, ms. */
const ASKED_EVERY_MS = 5;

export function realEnvoys(context: BenchContext): Promise<Table> {
  return withMesh(context, { meshConfig: { connectTimeout: '100ms' } }, async (mesh, owner) => {
    const rows: string[][] = [];
    const { folder } = mesh.world;
    await writeFile(join(folder, 'called.yaml'), callable(await startApplication(owner)).join('---\n'));
    for (const each of MEASURED) await writeFile(join(folder, `${each}.yaml`), sidecarAt(each, ADDRESSES[each]));
    // The documents are not part of what an Envoy waits for.
    await quiet(mesh);
    context.progress('an Envoy, all');
    rows.push(rowOf('all', [await measured(owner, mesh, 'all')]));
    const onDemand: Figures[] = [];
    for (let round = 0; round < context.options.rounds; round++) {
      context.progress('an Envoy, on-demand');
      onDemand.push(await measured(owner, mesh, 'on-demand'));
    }
    rows.push(rowOf('on-demand', onDemand));
    const title = `A real Envoy: ${mesh.size.services} services, ${CALLED} of them called`;
    const ready = ['first answer, s', 'of further proxies, s'];
    const columns = ['configuration', ...ready, 'kB received', 'heap, MiB', 'lines of statistics'];
    const requests = ['first request more than the second, p50, ms', 'p99, ms', 'kB received then', 'heap then, MiB'];
    return { title, columns: [...columns, ...requests], rows };
  });
}

/** What was measured with one Envoy. */
interface Figures {
  /** From its start to its first answer, s. */
  readonly ready: number;
  readonly first: Content;
  readonly then: Content;
  readonly lines: number;
  /** For each service, how much longer the first request took than the second, ms. Both are on new connections. */
  readonly more: readonly number[];
}

interface Content {
  readonly kB: number;
  readonly heapMiB: number;
}

async function measured(owner: Owner, mesh: Mesh, configuration: Measured): Promise<Figures> {
  const address = ADDRESSES[configuration];
  const started = monotonicMs();
  const envoy = await envoyOf(owner, mesh, configuration);
  await eventually(() => timed(address, called(0)), { intervalMs: ASKED_EVERY_MS });
  const ready = (monotonicMs() - started) / 1000;
  const first = await figuresOf(envoy);
  const more: number[] = [];
  for (let index = 1; index < CALLED; index++) {
    const [one, two] = [await timed(address, called(index)), await timed(address, called(index))];
    more.push(one - two);
  }
  const then = await figuresOf(envoy);
  const lines = (await envoy.admin('/stats')).split('\n').length;
  await envoy.stop();
  return { ready, first, then, lines, more };
}

/** The requests of all Envoys, and the other figures of the first one, which is the first of its workload. */
function rowOf(configuration: Measured, envoys: readonly Figures[]): string[] {
  const [one, ...further] = envoys;
  if (one === undefined) return [configuration];
  const { ready, first, then, lines } = one;
  const { p50, p99 } = quantiles(envoys.flatMap(({ more }) => more));
  return [
    configuration,
    ready.toFixed(2),
    further.length === 0 ? '' : median(further.map((each) => each.ready)).toFixed(2),
    first.kB.toFixed(0),
    first.heapMiB.toFixed(1),
    String(lines),
    p50.toFixed(1),
    p99.toFixed(1),
    then.kB.toFixed(0),
    then.heapMiB.toFixed(1),
  ];
}

/** One listener that Envoy binds, for requests to all services. */
function sidecarAt(name: string, address: string): string {
  const start = head('networking.istio.io/v1', 'Sidecar', name, namespaceName(0));
  return `${start}  workloadSelector: {labels: {app: ${name}}}
  egress:
  - port: {number: ${HTTP_PORT}, name: http, protocol: HTTP}
    bind: ${address}
    captureMode: NONE
    hosts: ["*/*"]
`;
}

async function envoyOf(owner: Owner, { server }: Mesh, configuration: Measured): Promise<Envoy> {
  const namespace = namespaceName(0);
  return await startEnvoy(owner, {
    id: `sidecar~127.0.0.1~${configuration}.${namespace}~${namespace}.svc.cluster.local`,
    metadata: {
      NAMESPACE: namespace,
      LABELS: { app: configuration },
      INTERCEPTION_MODE: 'NONE',
      INSTANCE_IPS: '127.0.0.1',
      SIDECAR_CONFIGURATION: configuration,
    },
    mode: 'delta',
    adsPort: server.ports.grpc,
  });
}

async function figuresOf(envoy: Envoy): Promise<Content> {
  const { allocated } = JSON.parse(await envoy.admin('/memory')) as { readonly allocated: string };
  const received = await envoy.stats('cluster.xds-grpc.upstream_cx_rx_bytes_total');
  const bytes = Object.values(received).reduce((sum, each) => sum + each, 0);
  return { kB: bytes / 1000, heapMiB: Number(allocated) / MIB };
}

const called = (index: number): string => `called-${index}.mesh.bench`;

/** Services with an application on this machine: those of the generated mesh have none. */
function callable(port: number): readonly string[] {
  return Array.from({ length: CALLED }, (_, index) => {
    const start = head('networking.istio.io/v1', 'ServiceEntry', `called-${index}`, namespaceName(0));
    return `${start}  hosts: [${called(index)}]
  ports: [{number: ${HTTP_PORT}, targetPort: ${port}, name: http, protocol: HTTP}]
  resolution: STATIC
  endpoints: [{address: 127.0.0.1}]
`;
  });
}

async function startApplication(owner: Owner): Promise<number> {
  const server = createServer((_request, response) => void response.end('ok')).listen(0, '127.0.0.1');
  owner.after(() => void server.close());
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

/** Milliseconds until the answer. */
async function timed(address: string, host: string): Promise<number> {
  const started = monotonicMs();
  const { status } = await request({ address, port: HTTP_PORT, host });
  if (status !== 200) throw new Error(`a request to ${host} returned HTTP ${status}`);
  return monotonicMs() - started;
}
