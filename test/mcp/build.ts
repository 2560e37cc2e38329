/**
 * Builds both ends of MCP of Istio 1.7, and its client of configuration over xDS, with a program around them. Their
 * modules come from the Go module proxy as go.sum has them. The program is kept in .cache, by what it is made of.
 */
import { join } from 'node:path';
import { buildGoProgram, type Child, goUnavailable, type Owner, startChild } from '../harness/index.ts';

/** The version in go.mod. */
const GO_NEEDED = [1, 26] as const;
const SOURCES = ['go.mod', 'go.sum', 'main.go', 'xds.go'];
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
export async function startIstioEnd(owner: Owner, ...args: readonly string[]): Promise<IstioEnd> {
  const program = await buildGoProgram({
    folder: import.meta.dirname,
    sources: SOURCES,
    cache: join(import.meta.dirname, '../../.cache'),
    name: 'mcp-ends',
    timeoutMs: BUILD_TIMEOUT_MS,
  });
  const lines: Line[] = [];
  let rest = '';
  const child = await startChild(owner, {
    name: `mcp-ends ${args[0]}`,
    command: program,
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
