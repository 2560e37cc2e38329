/** Load between two workloads that goes on while a test does something to the mesh. */
import { join } from 'node:path';
import { eventually, GiveUp } from '../../harness/index.ts';
import type { LoadReport } from '../../harness/load-main.ts';
import { PORTS, type Workload } from './identity-world.ts';

const PROGRAM = join(import.meta.dirname, '../../harness/load-main.ts');

export interface Load {
  report(): LoadReport;
  /** Waits for a state of the load; rejects if a request fails meanwhile. */
  until(what: string, condition: (report: LoadReport) => boolean, timeoutMs: number): Promise<LoadReport>;
  /** Settles after so many further answers without a failure. */
  more(count: number): Promise<LoadReport>;
  stop(): Promise<void>;
}

export interface LoadOptions {
  /** Another service with the same ports, for the HTTP requests. */
  readonly address?: string;
  /** HTTP/1.1 requests at a time. */
  readonly loops?: number;
  /** How long the application takes for each of them. */
  readonly delayMs?: number;
}

/** Requests of one workload to the service of another, over mutual TLS. */
export async function startLoad(from: Workload, to: Workload, options: LoadOptions = {}): Promise<Load> {
  const { address = to.serviceAddress, loops = 2, delayMs = 0 } = options;
  const ports = [PORTS.http.service, PORTS.grpc.service].map(String);
  const tcp = [to.serviceAddress, String(PORTS.bytes.service)];
  const argv = [process.execPath, PROGRAM, address, ...ports, ...tcp, String(loops), String(delayMs)];
  const child = await from.netns.start(`load of ${from.id}`, argv);
  const report = (): LoadReport => {
    const line = child.output().trimEnd().split('\n').at(-1) ?? '';
    return line.startsWith('{') && line.endsWith('}')
      ? (JSON.parse(line) as LoadReport)
      : { answered: 0, failures: [], certificates: [], ticks: 0 };
  };
  const until: Load['until'] = (what, condition, timeoutMs) =>
    eventually(
      () => {
        child.assertRunning();
        const now = report();
        // They remain failed, however long the wait.
        if (now.failures.length > 0) throw new GiveUp(`requests failed:\n${now.failures.join('\n')}`);
        if (!condition(now)) throw new Error(`${what}: not yet: ${JSON.stringify(now)}`);
        return now;
      },
      { timeoutMs, intervalMs: 100, what },
    );
  const load: Load = {
    report,
    until,
    async more(count) {
      const goal = report().answered + count;
      return until(`${count} more answers`, ({ answered }) => answered >= goal, 30_000);
    },
    stop: async () => void (await child.stop()),
  };
  await load.until('load', ({ answered, ticks }) => answered > 10 && ticks > 0, 30_000);
  return load;
}
