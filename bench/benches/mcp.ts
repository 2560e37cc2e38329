/**
 * 10,000 documents over MCP, beside the same documents in a directory: start until ready, and an edit of one document
 * until a proxy has its route. The source of MCP runs in this process.
 */
import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { systemClock } from '../../src/core/clock.ts';
import { createGrpcServer } from '../../src/grpc/index.ts';
import { createMcpService, ServedDocuments } from '../../src/mcp/index.ts';
import { type AnyResource, documentLimits, keyOf, parseResource, type ResourceKey } from '../../src/resources/index.ts';
import { tempDir } from '../../test/harness/files.ts';
import { createScope, type Owner } from '../../test/harness/owner.ts';
import { SimProxy } from '../../test/harness/sim-proxy.ts';
import type { Bench, BenchContext } from '../mesh.ts';
import { cpuSeconds } from '../process-stats.ts';
import { quantiles, type Table } from '../results.ts';
import { measureStart, type Server, startServer } from '../server.ts';
import { monotonicMs } from '../world/clock.ts';

const HOSTS = 5000;
const NAMESPACES = 100;
/** The routes of one namespace are edited: a proxy of it sees nothing else. */
const EDITED = 'ns-0';
const EDITS = 30;
const LIMITS = documentLimits(1, false, 'mesh-system');
const NOTHING = (): void => {};

const namespaceOf = (index: number): string => `ns-${index % NAMESPACES}`;

function route(index: number, seconds: number): object {
  const host = `h-${index}.example.com`;
  return {
    apiVersion: 'networking.istio.io/v1alpha3',
    kind: 'VirtualService',
    metadata: { name: `h-${index}`, namespace: namespaceOf(index) },
    spec: { hosts: [host], exportTo: ['.'], http: [{ timeout: `${seconds}s`, route: [{ destination: { host } }] }] },
  };
}

function entry(index: number): object {
  return {
    apiVersion: 'networking.istio.io/v1alpha3',
    kind: 'ServiceEntry',
    metadata: { name: `h-${index}`, namespace: namespaceOf(index) },
    spec: {
      hosts: [`h-${index}.example.com`],
      exportTo: ['.'],
      ports: [{ number: 80, name: 'http', protocol: 'HTTP' }],
      resolution: 'STATIC',
      endpoints: [{ address: `10.${index >> 16}.${(index >> 8) & 255}.${index & 255}` }],
    },
  };
}

function parsed(raw: object): AnyResource {
  const result = parseResource(raw, { source: 'bench' }, () => undefined, { limits: LIMITS });
  if ('resource' in result) return result.resource;
  throw new Error(JSON.stringify(result));
}

/** Where documents are edited. */
interface Origin {
  readonly name: string;
  readonly meshConfig: string;
  readonly configDir: string;
  edit(index: number, seconds: number): Promise<void>;
}

async function directory(owner: Owner): Promise<Origin> {
  const configDir = await tempDir(owner);
  const staging = await tempDir(owner);
  const meshConfig = join(staging, 'mesh.yaml');
  await writeFile(meshConfig, '{}');
  const write = (name: string, documents: readonly object[]) =>
    writeFile(join(configDir, name), documents.map((document) => stringify(document)).join('---\n'));
  for (let space = 0; space < NAMESPACES; space++) {
    const indexes = Array.from({ length: HOSTS }, (_, index) => index).filter((index) => index % NAMESPACES === space);
    await write(`entries-${space}.yaml`, indexes.map(entry));
    if (namespaceOf(space) !== EDITED)
      await write(
        `routes-${space}.yaml`,
        indexes.map((index) => route(index, 1)),
      );
    else for (const index of indexes) await write(`route-${index}.yaml`, [route(index, 1)]);
  }
  return {
    name: 'directory',
    meshConfig,
    configDir,
    async edit(index, seconds) {
      const file = join(staging, 'next.yaml');
      await writeFile(file, stringify(route(index, seconds)));
      await rename(file, join(configDir, `route-${index}.yaml`));
    },
  };
}

async function overMcp(owner: Owner): Promise<Origin> {
  const documents = new Map<ResourceKey, AnyResource>();
  const served = new ServedDocuments({
    read: (key) => documents.get(key),
    delayMs: 0,
    clock: systemClock,
    onLeftOut: (key, why) => {
      throw new Error(`${key}: ${why}`);
    },
  });
  const set = (raw: object): void => {
    const document = parsed(raw);
    documents.set(keyOf(document), document);
    served.changed([keyOf(document)]);
  };
  for (let index = 0; index < HOSTS; index++) for (const raw of [entry(index), route(index, 1)]) set(raw);
  const observer = {
    ...{ clients: NOTHING, received: NOTHING, acknowledged: NOTHING, rejected: NOTHING, receiveFailed: NOTHING },
    ...{ sendFailed: NOTHING, refused: NOTHING, internalError: NOTHING, endedEarly: NOTHING, requestTooLarge: NOTHING },
  };
  const authorize = async () => ({ key: 'bench', maxStreamMs: Number.POSITIVE_INFINITY });
  const server = createGrpcServer({
    listeners: [{ host: '127.0.0.1', port: 0 }],
    services: [createMcpService({ served, authorize, maxReceiveBytes: 2 ** 24, observer, clock: systemClock })],
    observer,
    maxStreams: 10,
    maxConnections: 10,
    keepaliveIntervalMs: 60_000,
    keepaliveTimeoutMs: 60_000,
    idleMs: 60_000,
    sendTimeoutMs: 60_000,
    requestTimeoutMs: 60_000,
    maxIncomplete: 10,
  });
  await server.start();
  owner.after(() => server.destroy());
  const configDir = await tempDir(owner);
  const meshConfig = join(await tempDir(owner), 'mesh.yaml');
  await writeFile(meshConfig, stringify({ configSources: [{ address: `127.0.0.1:${server.ports()[0]}` }] }));
  return { name: 'MCP', meshConfig, configDir, edit: async (index, seconds) => set(route(index, seconds)) };
}

function start(owner: Owner, { program }: BenchContext, { configDir, meshConfig }: Origin): Promise<Server> {
  return startServer(owner, { program, configDir, meshConfig, env: { CTL_ENABLE_INCREMENTAL_MCP: 'true' } });
}

/** Waits for routes at a proxy of the namespace with the edited documents. */
function watchRoutes(
  owner: Owner,
  port: number,
): { readonly next: () => Promise<number>; readonly first: Promise<number> } {
  let arrived = (_at: number): void => {};
  const next = (): Promise<number> =>
    new Promise((resolve) => {
      arrived = resolve;
    });
  const first = next();
  const proxy = new SimProxy({
    port,
    mode: 'delta',
    id: `sidecar~10.200.0.1~watcher.${EDITED}~${EDITED}.svc.cluster.local`,
    metadata: { NAMESPACE: EDITED },
    onResponse: (type) => {
      if (type === 'rds') arrived(monotonicMs());
    },
  });
  proxy.connect();
  owner.after(() => proxy.close());
  return { next, first };
}

async function measure(owner: Owner, context: BenchContext): Promise<readonly Table[]> {
  const { options, progress } = context;
  const origins = [await directory(owner), await overMcp(owner)];
  const starts: (string | number)[][] = [];
  for (let round = 0; round < options.rounds; round++) {
    for (const origin of origins) {
      progress(`start from ${origin.name}`);
      const { milliseconds, cpu, rssMiB, peakMiB } = await measureStart((scope) => start(scope, context, origin));
      starts.push([origin.name, milliseconds, cpu, rssMiB, peakMiB]);
    }
  }
  const watched = [];
  for (const origin of origins) {
    const server = await start(owner, context, origin);
    const routes = watchRoutes(owner, server.ports.grpc);
    await routes.first;
    watched.push({ origin, server, routes, times: [] as number[], cpu: cpuSeconds(server.pid) });
  }
  progress(`${EDITS} edits`);
  // By turns, so that a disturbance of the machine is in both.
  for (let edit = 1; edit <= EDITS; edit++) {
    for (const { origin, routes, times } of watched) {
      const [next, at] = [routes.next(), monotonicMs()];
      await origin.edit((edit % (HOSTS / NAMESPACES)) * NAMESPACES, 1 + edit);
      times.push((await next) - at);
    }
  }
  return [
    {
      title: `Start with ${2 * HOSTS} documents`,
      columns: ['source', 'ms to ready', 'CPU s', 'RSS MiB', 'peak MiB'],
      rows: starts,
    },
    {
      title: `Edit of one of ${2 * HOSTS} documents until a proxy has it, ${EDITS} times`,
      columns: ['source', 'p50 ms', 'p99 ms', 'CPU s an edit'],
      rows: watched.map(({ origin, server, times, cpu }) => {
        const { p50, p99 } = quantiles(times);
        return [origin.name, p50, p99, (cpuSeconds(server.pid) - cpu) / EDITS];
      }),
    },
  ];
}

export const mcp: Bench = {
  name: 'mcp',
  about: '10,000 documents over MCP beside a directory: start, and an edit until a proxy has it',
  async run(context) {
    const scope = createScope();
    try {
      return { rows: [], tables: await measure(scope, context) };
    } finally {
      await scope.close();
    }
  },
};
