/** A generated mesh with a server and proxies, from which most benches start, and the measurement of one change. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { tempDir } from '../test/harness/files.ts';
import { createScope, type Owner } from '../test/harness/owner.ts';
import { type Client, startClient } from './client/client.ts';
import type { Arrivals, ContentSecurity } from './client/messages.ts';
import type { Uses } from './client/uses.ts';
import { type Counters, countersOf, countersWithout, lostIn, quiet } from './counters.ts';
import type { Samples } from './metrics.ts';
import type { BenchOptions, Size } from './options.ts';
import { type Memory, memoryOf } from './process-stats.ts';
import { latencyOf, mean, median, type Outcome, type Row } from './results.ts';
import { type Measured, type RoundsContext, type Series, tallyOf } from './rounds.ts';
import { type Server, type ServerOptions, startServer } from './server.ts';
import { createIdentities, type Identities } from './world/identities.ts';
import { type Change, type ChangeKind, namespaceName, World, type WorldSize } from './world/world.ts';

/** How long to wait for messages after a change that no proxy sees, ms: several times the debounce. */
const UNSEEN_MS = 1000;

export interface BenchContext {
  readonly options: BenchOptions;
  /** The options that the server is started with. */
  readonly program: string;
  /** Folder for CPU profiles when asked for. */
  readonly profiles: string | undefined;
  readonly progress: (text: string) => void;
}

export interface Bench {
  readonly name: string;
  /** One line for the help and the report. */
  readonly about: string;
  /** Measures modules of this checkout inside the bench's own process, not a program: it has no turns. */
  readonly inProcess?: true;
  run(context: BenchContext): Promise<Outcome>;
}

export interface Mesh {
  readonly size: Size;
  readonly world: World;
  /** Undefined: plain text. */
  readonly identities: Identities | undefined;
  readonly client: Client;
  server: Server;
  /** Monotonic ms just before that server was started. */
  started: Counters;
}

export interface MeshOptions {
  readonly size?: Partial<Size>;
  readonly world?: Partial<WorldSize>;
  /** Namespaces of the proxies; those of the services when left out. */
  readonly proxyNamespaces?: readonly string[];
  /** The server answers webhooks. */
  readonly webhooks?: boolean;
  /** The mesh configuration; default: none. */
  readonly meshConfig?: object;
  /** Variables of the server. */
  readonly env?: Readonly<Record<string, string>>;
  /** Further flags of the server. */
  readonly flags?: readonly string[];
}

/** Runs `work` with a mesh whose server is ready and whose proxies are not connected; everything ends with `work`. */
export async function withMesh<T>(
  context: BenchContext,
  { size: part = {}, world: worldPart = {}, webhooks = false, meshConfig, env, flags }: MeshOptions,
  work: (mesh: Mesh, owner: Owner) => Promise<T>,
): Promise<T> {
  const scope = createScope();
  try {
    const { services, endpoints, proxies, namespaces, mode, security, content } = { ...context.options, ...part };
    const size: Size = { services, endpoints, proxies, namespaces, mode, security, content };
    const folder = join(await tempDir(scope), 'config');
    const world = new World(folder, { services, endpoints, namespaces, mode, content, ...worldPart });
    context.progress(`writing ${services} services`);
    await world.write();
    const identities = security === 'mtls' ? await createIdentities(scope) : undefined;
    const client = startClient(scope);
    // Waits for the process of proxies, so that the two starts do not share the cores.
    const started = await countersWithout(client);
    const server = await startServer(scope, {
      ...serverOptions(context, folder, identities ?? (webhooks ? await createIdentities(scope) : undefined)),
      webhooks,
      ...(meshConfig !== undefined && { meshConfig: await written(scope, meshConfig) }),
      ...(env && { env }),
      ...(flags && { flags }),
    });
    return await work({ size, world, identities, client, server, started }, scope);
  } finally {
    await scope.close();
  }
}

/** JSON is YAML. */
async function written(owner: Owner, meshConfig: object): Promise<string> {
  const file = join(await tempDir(owner), 'mesh.yaml');
  await writeFile(file, JSON.stringify(meshConfig));
  return file;
}

function serverOptions(context: BenchContext, configDir: string, identities: Identities | undefined): ServerOptions {
  return {
    program: context.program,
    configDir,
    ...(identities === undefined ? {} : { tls: identities.server }),
    ...(context.profiles === undefined ? {} : { profiles: context.profiles }),
  };
}

/** Replaces the mesh's server by a new one on the same ports. */
export async function startAgain(context: BenchContext, owner: Owner, mesh: Mesh): Promise<void> {
  const options = serverOptions(context, mesh.world.folder, mesh.identities);
  mesh.started = await countersWithout(mesh.client);
  mesh.server = await startServer(owner, { ...options, ports: mesh.server.ports });
}

/** The part of a bench's context that `addRound` needs. */
export function roundsOf({ options: { policy }, progress }: BenchContext): RoundsContext {
  return { policy, progress, pause: delay };
}

export interface JoinOptions {
  readonly namespaces?: readonly string[];
  /** The address that the proxies of each namespace connect from; by default 127.0.0.1. */
  readonly addresses?: readonly string[];
  readonly slow?: number;
  readonly count?: number;
  /** Proxies on demand, which call these. */
  readonly uses?: Uses;
}

export interface Joined extends Measured {
  /** Milliseconds from the server's start until each proxy had everything. */
  readonly latencies: readonly number[];
  /** Monotonic ms at which the last one had everything. */
  readonly synced: Counters;
}

/** Connects the proxies and waits until all have everything. */
export async function joinProxies(context: BenchContext, mesh: Mesh, options: JoinOptions = {}): Promise<Joined> {
  const { size, client, server } = mesh;
  const namespaces = options.namespaces ?? Array.from({ length: size.namespaces }, (_, index) => namespaceName(index));
  const count = options.count ?? size.proxies;
  context.progress(`connecting ${count} proxies (${size.mode})`);
  const { grpc, secure } = server.ports;
  const certificates = await mesh.identities?.proxies(namespaces);
  await client.do({
    op: 'open',
    port: certificates === undefined ? grpc : secure,
    mode: size.mode,
    content: size.content,
    gzip: context.options.gzip,
    count,
    namespaces,
    slow: options.slow ?? 0,
    ...(options.addresses === undefined ? {} : { addresses: options.addresses }),
    ...(certificates === undefined ? {} : { certificates }),
    ...(options.uses && { uses: options.uses }),
  });
  const { timeoutMs } = context.options;
  const { at } = complete(await client.do({ op: 'synced', timeoutMs }), 'the first configuration');
  const synced = await countersOf(mesh);
  return { latencies: at.map((arrival) => arrival - server.startedAt), synced, lost: lostIn(mesh.started, synced) };
}

/** Throws when the change has not arrived everywhere. */
export function complete(arrivals: Arrivals, what: string): Arrivals {
  if (arrivals.missing > 0)
    throw new Error(`${what} has not arrived at ${arrivals.missing} of ${arrivals.at.length} proxies`);
  return arrivals;
}

export interface Round extends Measured {
  /** Milliseconds from the change on disk, for each watched proxy. */
  readonly latencies: readonly number[];
  readonly serverCpu: number;
  readonly clientCpu: number;
  readonly bytes: number;
  readonly messages: number;
  readonly resources: number;
  readonly before: Samples;
  readonly after: Samples;
}

/** How the table names a row. */
export type Label = Pick<Row, 'bench' | 'what'>;

let watches = 0;

/** A number for the next watch. */
export function nextWatch(): number {
  return ++watches;
}

/** What a server does beside a change that is measured. */
export interface Load {
  /** Ends it. Rejects when it failed. */
  readonly end: () => Promise<void>;
}

export interface ChangeOptions {
  /** Only these proxies should receive the change. */
  readonly proxies?: readonly number[];
  /** Begins when the server is idle, and ends when the change has arrived. */
  readonly load?: () => Load;
}

/** Makes one change and follows it to the proxies. */
export async function measureChange(
  context: BenchContext,
  mesh: Mesh,
  change: Change,
  { proxies, load }: ChangeOptions = {},
): Promise<Round> {
  const { client, world, server } = mesh;
  const samples = await server.samples();
  const before = await quiet(mesh);
  const watch = nextWatch();
  await client.do({ op: 'watch', watch, predicates: change.expect, ...(proxies === undefined ? {} : { proxies }) });
  const underWay = load?.();
  const at = await world.apply(change);
  let arrivals: readonly number[] = [];
  if (change.expect.length === 0) await delay(UNSEEN_MS);
  else {
    const { timeoutMs } = context.options;
    arrivals = complete(await client.do({ op: 'arrived', watch, timeoutMs }), `the change of ${change.path}`).at;
  }
  await underWay?.end();
  const after = await quiet(mesh);
  return {
    latencies: arrivals.map((arrival) => arrival - at),
    lost: lostIn(before, after),
    serverCpu: after.serverCpu - before.serverCpu,
    clientCpu: after.totals.cpuSeconds - before.totals.cpuSeconds,
    bytes: after.totals.bytes - before.totals.bytes,
    messages: after.totals.messages - before.totals.messages,
    resources: after.totals.resources - before.totals.resources,
    before: samples,
    after: await server.samples(),
  };
}

/** Makes a change and waits for it where the server does other work meanwhile. */
export async function watchedChange(
  { options: { timeoutMs } }: BenchContext,
  { client, world }: Mesh,
  change: Change,
): Promise<{ readonly at: number; readonly arrivals: Arrivals }> {
  const watch = nextWatch();
  await client.do({ op: 'watch', watch, predicates: change.expect });
  const at = await world.apply(change);
  return { at, arrivals: await client.do({ op: 'arrived', watch, timeoutMs }) };
}

/** Milliseconds from such a change until each proxy had it. */
export async function changeUnderLoad(context: BenchContext, mesh: Mesh, change: Change): Promise<number[]> {
  const { at, arrivals } = await watchedChange(context, mesh, change);
  return complete(arrivals, `the change of ${change.path}`).at.map((arrival) => arrival - at);
}

/** Undoes a change that cannot be made twice in a row, before it is repeated. */
const WAY_BACK: Partial<Record<ChangeKind, ChangeKind>> = {
  'service added': 'service removed',
  'service removed': 'service added',
};

/** Measures the change of a kind in a round. A repetition starts from the same state as the first attempt. */
export async function measureKind(
  context: BenchContext,
  mesh: Mesh,
  kind: ChangeKind,
  round: number,
  attempt: number,
): Promise<Round> {
  const back = attempt === 0 ? undefined : WAY_BACK[kind];
  if (back !== undefined) await measureChange(context, mesh, mesh.world.change(back, round));
  return measureChange(context, mesh, mesh.world.change(kind, round, attempt));
}

/** `max - min`; 0 for none. */
export function spread(values: readonly number[]): number {
  return values.length === 0 ? 0 : Math.max(...values) - Math.min(...values);
}

/** One row of several rounds of the same change. */
export function rowOf(context: BenchContext, what: Label, mesh: Mesh, series: Series<Round>, note?: string): Row {
  const { counted } = series;
  const latencies = counted.map((round) => round.latencies);
  const seen = latencies.some((round) => round.length > 0);
  return {
    ...what,
    size: mesh.size,
    ...latencyOf(latencies),
    ...(seen ? { spreadMs: median(latencies.map(spread)) } : {}),
    rounds: tallyOf(series, context.options.policy),
    serverCpu: median(counted.map((round) => round.serverCpu)),
    clientCpu: median(counted.map((round) => round.clientCpu)),
    bytes: mean(counted.map((round) => round.bytes)),
    messages: mean(counted.map((round) => round.messages)),
    resources: mean(counted.map((round) => round.resources)),
    ...memory(mesh),
    ...(note === undefined ? {} : { note }),
  };
}

/** The row of the first start, which is not repeated, with the memory used now. */
export function startRow(context: BenchContext, what: Label, mesh: Mesh, joined: Joined): Row {
  return {
    ...what,
    size: mesh.size,
    ...latencyOf([joined.latencies]),
    rounds: tallyOf({ counted: [joined], thrownAway: 0 }, context.options.policy),
    ...memory(mesh),
  };
}

export function memory(mesh: Mesh): Memory {
  return memoryOf(mesh.server.pid);
}

/**
 * Checks that every proxy has what a new one gets, and that it is the content of the options. Returns a few words for
 * the table, or throws.
 */
export async function verify(context: BenchContext, mesh: Mesh): Promise<string> {
  const { timeoutMs } = context.options;
  const { compared, differences, security } = await mesh.client.do({ op: 'verify', timeoutMs });
  if (differences.length > 0) throw new Error(`proxies are not as fresh ones: ${differences.join('; ')}`);
  return `${compared} proxies as fresh ones; ${securityText(mesh.size, security)}`;
}

function securityText({ content }: Size, { clusters, secured, endpoints, ready }: ContentSecurity): string {
  const isWhole = content === 'mtls' ? secured === clusters && ready === endpoints : secured + ready === 0;
  const text = `mutual TLS in ${secured} of ${clusters} clusters, for ${ready} of ${endpoints} endpoints`;
  if (!isWhole) throw new Error(`not the content that proxies of the kind "${content}" receive: ${text}`);
  return text;
}
