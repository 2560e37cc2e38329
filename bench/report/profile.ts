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
    const file = url.startsWith('file:') ? `${fileURLToPath(url)}.map` : '';
    maps.set(url, existsSync(file) ? new SourceMap(JSON.parse(readFileSync(file, 'utf8'))) : undefined);
  }
  return maps.get(url);
}

/** File and line of a function in its source; of the path the end, which is what tells a file. */
function place({ url, lineNumber, columnNumber }: CallFrame): string {
  if (url === '') return '(native)';
  const entry = mapOf(url)?.findEntry(lineNumber, columnNumber);
  const mapped = entry !== undefined && 'originalSource' in entry;
  const path = mapped ? entry.originalSource : url.replace(/^file:\/\//, '');
  const known = /(?:node_modules|src|workers|proto)\/.*$/.exec(path)?.[0] ?? path;
  return `${known}:${(mapped ? entry.originalLine : lineNumber) + 1}`;
}

function selfTimes(profile: CpuProfile): Map<string, number> {
  const names = new Map(
    profile.nodes.map(({ id, callFrame }) => {
      const { functionName, url } = callFrame;
      const own = functionName.startsWith('(') && url === '';
      return [id, own ? functionName : `${functionName || '(anonymous)'} ${place(callFrame)}`];
    }),
  );
  const times = new Map<string, number>();
  profile.samples.forEach((sample, index) => {
    const name = names.get(sample) ?? '?';
    times.set(name, (times.get(name) ?? 0) + (profile.timeDeltas[index] ?? 0) / 1000);
  });
  return times;
}

/** One table for each profile in the folder that saw any work; file names are `CPU.<date>.<time>.<pid>.<thread>.<n>.cpuprofile`. */
export function profileTables(folder: string): Table[] {
  return readdirSync(folder)
    .filter((file) => file.endsWith('.cpuprofile'))
    .sort()
    .flatMap((file) => {
      const profile: unknown = JSON.parse(readFileSync(join(folder, file), 'utf8'));
      if (!isCpuProfile(profile)) return [];
      const [, , , pid = '', thread = ''] = file.split('.');
      const times = selfTimes(profile);
      const busy = [...times].filter(([name]) => !NOT_WORK.includes(name) && !name.startsWith(WAITING));
      const total = busy.reduce((sum, [, ms]) => sum + ms, 0);
      const rows = busy
        .sort(([, a], [, b]) => b - a)
        .slice(0, TOP)
        .map(([name, ms]) => [name, ms, `${((ms / total) * 100).toFixed(1)} %`]);
      const where = thread === '0' ? 'main thread' : `worker thread ${thread}`;
      const program = Math.round(times.get('(program)') ?? 0);
      const title = `CPU profile: ${where} of process ${pid} (${Math.round(total)} ms in functions, ${program} ms in native code outside them)`;
      return [{ title, columns: ['function', 'self ms', 'share'], rows }];
    });
}
