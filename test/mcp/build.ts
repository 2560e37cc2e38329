/**
 * Builds the programs of other projects that tests of configuration protocols run: both ends of MCP of Istio 1.7 and
 * its client of configuration over xDS, and a server of go-control-plane. Their modules come from the Go module
 * proxy as go.sum has them. Programs are kept in .cache, by what they are made of.
 */
import { join } from 'node:path';
import { buildGoProgram, type Child, goUnavailable, type Owner, startChild } from '../harness/index.ts';

/** The version in go.mod. */
const GO_NEEDED = [1, 26] as const;
/** A first build fetches 150 MB and compiles for about a minute and a half on an idle machine. */
const BUILD_TIMEOUT_MS = 550_000;

/** Why the program cannot be built, or undefined when it can: for the `skip` of a test. */
export function endsUnavailable(): Promise<string | undefined> {
  return goUnavailable(GO_NEEDED);
}

/** A line that the program prints. */
export type Line = Readonly<Record<string, unknown>>;

export interface IstioEnd {
  readonly child: Child;
  /** What it has printed, in order. */
  readonly lines: readonly Line[];
}

/** Starts an end; it ends with its owner. Rejects with the output of the go command when it cannot be built. */
export function startIstioEnd(owner: Owner, ...args: readonly string[]): Promise<IstioEnd> {
  return startProgram(owner, ISTIO_ENDS, args);
}

/** Starts a server of configuration over xDS, as {@link startIstioEnd}. */
export function startConfigServer(owner: Owner, ...args: readonly string[]): Promise<IstioEnd> {
  return startProgram(owner, CONFIG_SERVER, args);
}

interface Program {
  readonly name: string;
  readonly folder: string;
  readonly sources: readonly string[];
}

const ISTIO_ENDS: Program = {
  name: 'mcp-ends',
  folder: import.meta.dirname,
  sources: ['go.mod', 'go.sum', 'main.go', 'xds.go'],
};
const CONFIG_SERVER: Program = {
  name: 'config-server',
  folder: join(import.meta.dirname, 'config-server'),
  sources: ['go.mod', 'go.sum', 'main.go'],
};

async function startProgram(owner: Owner, program: Program, args: readonly string[]): Promise<IstioEnd> {
  const command = await buildGoProgram({
    ...program,
    cache: join(import.meta.dirname, '../../.cache'),
    timeoutMs: BUILD_TIMEOUT_MS,
  });
  const lines: Line[] = [];
  let rest = '';
  const child = await startChild(owner, {
    name: `${program.name} ${args[0]}`,
    command,
    args,
    onOutput(text) {
      const all = (rest + text).split('\n');
      rest = all.pop() ?? '';
      // Its log is among them.
      for (const line of all) if (line.startsWith('{')) lines.push(JSON.parse(line) as Line);
    },
  });
  return { child, lines };
}
