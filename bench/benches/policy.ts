/**
 * Decisions of the policy component, by turns with a bare ext_authz server written with grpc-js: checks a second of
 * CPU, and how long callers wait at half of the aim. Then pushes with the plugin on and no rule, by turns with the
 * plugin off.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { tempDir } from '../../test/harness/files.ts';
import { createScope, type Owner } from '../../test/harness/owner.ts';
import { startAsked } from '../client/child.ts';
import { type Bench, type BenchContext, type Round, withMesh } from '../mesh.ts';
import type { BareCommand, BareResult, LoadCommand, LoadResult, Tls } from '../policy/messages.ts';
import { documents, NAMESPACE } from '../policy/requests.ts';
import { cpuSeconds } from '../process-stats.ts';
import { mean, median, type Outcome, type Table } from '../results.ts';
import { startServer } from '../server.ts';
import { measureSides, type Side, sideOf } from '../sides.ts';
import { createIdentities } from '../world/identities.ts';
import type { ChangeKind } from '../world/world.ts';

/** Half of the aim, which is 5,000 checks a second of CPU. */
const RATE = 2_500;
const IN_FLIGHT = 64;
/** An Envoy has one for each of its threads. */
const CONNECTIONS = 8;
/** A round takes this part of `--seconds`. */
const PART_OF_SECONDS = 0.05;
const KINDS = ['route', 'endpoint'] as const satisfies readonly ChangeKind[];

interface Target {
  readonly name: string;
  readonly pid: number;
  readonly port: number;
  readonly tls: Tls | undefined;
}

async function targets(owner: Owner, { program, profiles }: BenchContext): Promise<Target[]> {
  const identities = await createIdentities(owner);
  const { ca: root, identities: callers } = await identities.proxies([NAMESPACE]);
  const caller = callers[NAMESPACE];
  if (caller === undefined) throw new Error('the caller has no certificate');
  const tls = { root, chain: caller.certificate, key: caller.key };
  const configDir = join(await tempDir(owner), 'config');
  await mkdir(configDir);
  await writeFile(join(configDir, 'policy.yaml'), documents());
  const ours = await startServer(owner, {
    program,
    configDir,
    tls: identities.server,
    ...(profiles !== undefined && { profiles }),
  });
  const bare = (own: Tls | undefined) =>
    startAsked<BareCommand, BareResult>(owner, join(import.meta.dirname, '../policy/bare-server.ts')).ask({ tls: own });
  const read = (name: 'certificate' | 'key') => readFile(identities.server[name], 'utf8');
  const [secured, plain] = await Promise.all([
    bare({ root, chain: await read('certificate'), key: await read('key') }),
    bare(undefined),
  ]);
  return [
    { name: 'ctl-discovery, mutual TLS', pid: ours.pid, port: ours.ports.secure, tls },
    { name: 'grpc-js, mutual TLS', ...secured, tls },
    { name: 'ctl-discovery, plain', pid: ours.pid, port: ours.ports.grpc, tls: undefined },
    { name: 'grpc-js, plain', ...plain, tls: undefined },
  ];
}

interface Measured extends LoadResult {
  readonly perCpuSecond: number;
  /** Part of a core. */
  readonly load: number;
}

/** Decisions a second of CPU with a closed loop of callers, then waiting times at a fixed rate. */
async function decisions(context: BenchContext): Promise<Table> {
  const { options, progress } = context;
  const scope = createScope();
  try {
    const servers = await targets(scope, context);
    const callers = startAsked<LoadCommand, LoadResult>(scope, join(import.meta.dirname, '../policy/load.ts'));
    const seconds = options.seconds * PART_OF_SECONDS;
    const round = async ({ pid, port, tls }: Target, rate: number | undefined): Promise<Measured> => {
      const before = cpuSeconds(pid);
      const command = { port, tls, seconds, rate, inFlight: IN_FLIGHT, connections: CONNECTIONS };
      const result = await callers.ask(command);
      const cpu = cpuSeconds(pid) - before;
      return { ...result, perCpuSecond: (result.perSecond * seconds) / cpu, load: cpu / seconds };
    };
    const rows: (string | number)[][] = [];
    for (const rate of [undefined, RATE]) {
      const what = rate === undefined ? `${IN_FLIGHT} at a time` : `${rate} a second`;
      if (!isWanted(options, what)) continue;
      const results = new Map<Target, Measured[]>(servers.map((target) => [target, []]));
      for (let count = 1 - options.warmUp; count <= options.rounds; count++)
        for (const [target, list] of count % 2 === 0 ? [...results].reverse() : results) {
          progress(`${target.name}, ${what}, round ${count} of ${options.rounds}`);
          const result = await round(target, rate);
          if (count >= 1) list.push(result);
        }
      for (const [{ name }, list] of results) {
        const of = (pick: (result: Measured) => number) => median(list.map(pick));
        const wrong = list.reduce((sum, result) => sum + result.wrong, 0);
        const whole = [of(({ perSecond }) => perSecond), of(({ perCpuSecond }) => perCpuSecond)].map(Math.round);
        const times = [of(({ load }) => load), of(({ p50 }) => p50), of(({ p99 }) => p99), of(({ max }) => max)];
        rows.push([name, what, ...whole, ...times, wrong]);
      }
    }
    const columns = ['server', 'load', 'checks/s', 'per CPU s', 'cores', 'p50 ms', 'p99 ms', 'max ms', 'wrong'];
    const title = `Decisions about requests, ${CONNECTIONS} connections (medians of ${options.rounds} rounds)`;
    return { title, columns, rows };
  } finally {
    await scope.close();
  }
}

function isWanted({ only }: BenchContext['options'], part: string): boolean {
  return only.length === 0 || only.some((each) => part.includes(each));
}

/** The plugins without `policy`, which is one of the default. */
const OFF = { flags: ['--plugins', 'authn,authz,health'] };

/** Changes with the plugin on and no document of the component, and with the plugin off. */
function pushes(context: BenchContext): Promise<Outcome> {
  return withMesh(context, OFF, (without) =>
    withMesh(context, {}, async (with_) => {
      const sides = [sideOf('plugin off', without, KINDS), sideOf('plugin on, no rule', with_, KINDS)];
      const rows = await measureSides(context, 'policy', sides);
      return { rows, tables: [pairsTable(sides)] };
    }),
  );
}

/** Pairs are the two rounds of one moment. */
function pairsTable(sides: readonly Side[]): Table {
  const rows = KINDS.map((kind) => {
    const [off = [], on = []] = sides.map(({ series }) => series.get(kind)?.counted ?? []);
    const latest = (list: readonly Round[]) => median(list.map(({ latencies }) => Math.max(...latencies)));
    const cpu = (list: readonly Round[]) => mean(list.map(({ serverCpu }) => serverCpu));
    const bytes = (list: readonly Round[]) => mean(list.map((round) => round.bytes));
    return [kind, latest(off), latest(on), cpu(off), cpu(on), bytes(off), bytes(on)];
  });
  const columns = ['last proxy, ms', 'CPU s', 'bytes'].flatMap((figure) => [`${figure}, off`, `${figure}, on`]);
  return { title: 'Pushes with the plugin off, and on without a rule', columns: ['change', ...columns], rows };
}

export const policy: Bench = {
  name: 'policy',
  about: 'decisions of the policy component beside a bare ext_authz server of grpc-js, and pushes without a rule',
  async run(context) {
    const table = await decisions(context);
    const nothing: Outcome = { rows: [] };
    const { rows, tables = [] } = isWanted(context.options, 'pushes') ? await pushes(context) : nothing;
    return { rows, tables: [table, ...tables] };
  },
};
