/** Sums up CPU profiles (V8's .cpuprofile): which functions had the processor, per thread. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Table } from '../results.ts';

interface CpuProfile {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: { readonly functionName: string; readonly url: string; readonly lineNumber: number };
  }[];
  readonly samples: readonly number[];
  /** Microseconds before each sample. */
  readonly timeDeltas: readonly number[];
}

const TOP = 25;
const NOT_WORK = new Set(['(idle)', '(program)', '(root)']);

function isCpuProfile(value: unknown): value is CpuProfile {
  return typeof value === 'object' && value !== null && 'nodes' in value && 'samples' in value && 'timeDeltas' in value;
}

/** The end of a path, which is what tells a file. */
function place(url: string, line: number): string {
  if (url === '') return '(native)';
  const path = url.replace(/^file:\/\//, '');
  const known = /(?:node_modules|src|workers|proto)\/.*$/.exec(path)?.[0] ?? path;
  return `${known}:${line + 1}`;
}

function selfTimes(profile: CpuProfile): Map<string, number> {
  const names = new Map(
    profile.nodes.map(({ id, callFrame: { functionName, url, lineNumber } }) => [
      id,
      functionName.startsWith('(') && url === ''
        ? functionName
        : `${functionName || '(anonymous)'} ${place(url, lineNumber)}`,
    ]),
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
      const busy = [...times].filter(([name]) => !NOT_WORK.has(name));
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
