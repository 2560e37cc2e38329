/** Sums up CPU profiles (V8's .cpuprofile): which functions had the processor, per thread. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { SourceMap } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Table } from '../results.ts';

/** Lines and columns from 0. */
interface CallFrame {
  readonly functionName: string;
  readonly url: string;
  readonly lineNumber: number;
  readonly columnNumber: number;
}

interface CpuProfile {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: CallFrame;
    readonly children?: readonly number[];
  }[];
  readonly samples: readonly number[];
  /** Microseconds before each sample. */
  readonly timeDeltas: readonly number[];
}

const TOP = 25;
const NOT_WORK = ['(idle)', '(program)', '(root)'];
/** piscina's threads wait for their next task here. */
const WAITING = 'atomicsWaitLoop ';

function isCpuProfile(value: unknown): value is CpuProfile {
  return typeof value === 'object' && value !== null && 'nodes' in value && 'samples' in value && 'timeDeltas' in value;
}

const maps = new Map<string, SourceMap | undefined>();

/** The map of a built file, where there is one. */
function mapOf(url: string): SourceMap | undefined {
  if (!maps.has(url)) {
    const file = url.startsWith('file:') && !url.includes('/node_modules/') ? `${fileURLToPath(url)}.map` : '';
    maps.set(url, existsSync(file) ? new SourceMap(JSON.parse(readFileSync(file, 'utf8'))) : undefined);
  }
  return maps.get(url);
}

/** File and line of a function in its source; the end of the path is enough to recognize the file. */
function place({ url, lineNumber, columnNumber }: CallFrame): string {
  if (url === '') return '(native)';
  const entry = mapOf(url)?.findEntry(lineNumber, columnNumber);
  const mapped = entry !== undefined && 'originalSource' in entry;
  const path = mapped ? entry.originalSource : url.replace(/^file:\/\//, '');
  const known = /(?:node_modules|src|workers|proto)\/.*$/.exec(path)?.[0] ?? path;
  return `${known}:${(mapped ? entry.originalLine : lineNumber) + 1}`;
}

/** Milliseconds by function. */
type Times = Map<string, number>;

function add(times: Times, name: string, ms: number): void {
  times.set(name, (times.get(name) ?? 0) + ms);
}

/** Time in each function itself, and including its callees. */
function timesOf(profile: CpuProfile): { own: Times; total: Times } {
  const names = new Map<number, string>();
  const parents = new Map<number, number>();
  for (const { id, callFrame, children = [] } of profile.nodes) {
    const { functionName, url } = callFrame;
    const inner = functionName.startsWith('(') && url === '';
    names.set(id, inner ? functionName : `${functionName || '(anonymous)'} ${place(callFrame)}`);
    for (const child of children) parents.set(child, id);
  }
  const byNode = new Map<number, number>();
  profile.samples.forEach((node, index) => {
    byNode.set(node, (byNode.get(node) ?? 0) + (profile.timeDeltas[index] ?? 0) / 1000);
  });
  const [own, total]: [Times, Times] = [new Map(), new Map()];
  for (const [node, ms] of byNode) {
    add(own, names.get(node) ?? '?', ms);
    const callers = new Set<string>();
    for (let at: number | undefined = node; at !== undefined; at = parents.get(at)) callers.add(names.get(at) ?? '?');
    for (const caller of callers) add(total, caller, ms);
  }
  return { own, total };
}

function isWork(name: string): boolean {
  return !NOT_WORK.includes(name) && !name.startsWith(WAITING);
}

function topRows(times: Times, all: number): Table['rows'] {
  const sorted = [...times].sort(([, a], [, b]) => b - a).slice(0, TOP);
  return sorted.map(([name, ms]) => [name, ms, `${((ms / all) * 100).toFixed(1)} %`]);
}

/** Two tables for each profile in the folder; file names are `CPU.<date>.<time>.<pid>.<thread>.<n>.cpuprofile`. */
export function profileTables(folder: string): Table[] {
  return readdirSync(folder)
    .filter((file) => file.endsWith('.cpuprofile'))
    .sort()
    .flatMap((file) => {
      const profile: unknown = JSON.parse(readFileSync(join(folder, file), 'utf8'));
      if (!isCpuProfile(profile)) return [];
      const [, , , pid = '', thread = ''] = file.split('.');
      const { own, total } = timesOf(profile);
      const working = new Map([...own].filter(([name]) => isWork(name)));
      const all = [...working.values()].reduce((sum, ms) => sum + ms, 0);
      const native = Math.round(own.get('(program)') ?? 0);
      const where = `${thread === '0' ? 'main thread' : `worker thread ${thread}`} of process ${pid}`;
      const sums = `${Math.round(all)} ms in functions, ${native} ms in native code outside them`;
      const mine = new Map([...total].filter(([name]) => isWork(name) && / (?:src|workers)\//.test(name)));
      return [
        {
          title: `CPU profile: ${where} (${sums})`,
          columns: ['function', 'self ms', 'share'],
          rows: topRows(working, all),
        },
        {
          title: `CPU profile: ${where}, with what they call`,
          columns: ['function', 'ms', 'share'],
          rows: topRows(mine, all),
        },
      ];
    });
}
