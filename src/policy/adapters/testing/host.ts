/** A host for handlers in tests: its time advances when the test says so, and what is written is kept. */
import type { Value } from '../../../expressions/index.ts';
import type { Instance, InstanceValue, Variety } from '../../types.ts';
import type { AdapterHost, Built, CallContext } from '../types.ts';

export interface TestHost extends AdapterHost {
  readonly written: string[];
  readonly logged: string[];
  /** Advances both clocks, and runs what is due. */
  advance(ms: number): void;
  /** Repeated work that has not been stopped. */
  readonly loops: number;
}

export function testHost(overrides: Partial<AdapterHost> = {}): TestHost {
  let now = 1_000_000;
  const loops = new Set<{ readonly ms: number; readonly run: () => void; next: number }>();
  const [written, logged]: [string[], string[]] = [[], []];
  const note = (message: string): void => void logged.push(message);
  return {
    now: () => now,
    monotonic: () => now,
    random: () => 0,
    every(ms, run) {
      const loop = { ms, run, next: now + ms };
      loops.add(loop);
      return () => loops.delete(loop);
    },
    later: (ms, run) => {
      const timer = setTimeout(run, ms);
      return () => clearTimeout(timer);
    },
    fetch: () => Promise.reject(new Error('no network')),
    call: () => Promise.reject(new Error('no network')),
    resolve: async (host) => host,
    readFile: () => Promise.reject(new Error('no files')),
    lines: { write: (_, line) => written.push(line) > 0 },
    log: { debug: note, info: note, warn: note, error: note },
    skipsSanVerification: false,
    ...overrides,
    written,
    logged,
    advance(ms) {
      now += ms;
      for (const loop of loops) {
        if (loop.next > now) continue;
        loop.next = now + loop.ms;
        loop.run();
      }
    },
    get loops() {
      return loops.size;
    },
  };
}

export const CALL: CallContext = { caller: 'spiffe://td/ns/shop/sa/web', id: '1', now: 0 };

/** A value of an instance `name.instance.shop`. */
export function built(name: string, variety: Variety, value: InstanceValue): Built {
  const instance: Instance = { id: `${name}.instance.shop`, variety, reads: [], build: () => value };
  return { instance, value };
}

export const entry = (value: Value): Built => built('entry', 'CHECK', { template: 'listentry', value });

export function quota(name: string, dimensions: Readonly<Record<string, Value>> = {}): Built {
  return built(name, 'QUOTA', { template: 'quota', dimensions: new Map(Object.entries(dimensions)) });
}

export function metric(name: string, value: number | bigint, dimensions: Readonly<Record<string, Value>> = {}): Built {
  return built(name, 'REPORT', { template: 'metric', value, dimensions: new Map(Object.entries(dimensions)) });
}
