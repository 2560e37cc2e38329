/**
 * What tools read of the process: each topic as JSON under `/<topic>j`, by the names of Istio's ControlZ. Its page is
 * `/<topic>z`.
 */
import { hostname, tmpdir } from 'node:os';
import { basename } from 'node:path';
import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { BuildInfo } from '../core/build-info.ts';
import { CtlError } from '../core/errors.ts';

export interface ProcessTopics {
  readonly build: BuildInfo;
  /** The variables that are shown: those of the program's tables. The whole environment may contain secrets. */
  readonly environment: Readonly<Record<string, string>>;
  /** The command line, first the program. */
  readonly args: readonly string[];
  /** Every flag with the value in force. */
  readonly flags: Readonly<Record<string, unknown>>;
}

/** The signals that the program acts on. */
const SIGNALS = [
  { name: 'SIGTERM', effect: 'ends the program after its streams have been drained' },
  { name: 'SIGINT', effect: 'as SIGTERM' },
] as const;

/** The JSON of a topic; undefined for an unknown one. */
export function topicJson(name: string, topics: ProcessTopics): unknown {
  switch (name) {
    case 'argj':
      return topics.args;
    case 'envj':
      return Object.entries(topics.environment).map(([variable, value]) => ({ name: variable, value }));
    case 'flagj':
      return Object.entries(topics.flags).map(([flag, value]) => ({ name: flag, value }));
    case 'homej':
      return {
        ProcessName: basename(topics.args[0] ?? ''),
        HeapSize: process.memoryUsage().heapUsed,
        CurrentTime: Date.now() * 1e6,
        Hostname: hostname(),
      };
    case 'memj':
      return { ...process.memoryUsage(), heap: getHeapStatistics() };
    case 'procj':
      return processFacts();
    case 'signalj':
      return SIGNALS;
    case 'versionj':
      return topics.build;
    default:
      return undefined;
  }
}

/** Paths of PUT and POST, each with what it does. Undefined: there is no such path. */
export function topicAction(path: string): (() => void) | undefined {
  switch (path) {
    case '/memj/forcecollection':
      return collectGarbage;
    case '/homej/exit':
    case '/signalj/SIGTERM':
    case '/signalj/SIGINT':
      return () => void setTimeout(() => process.kill(process.pid, 'SIGTERM'), ANSWER_MS);
    case '/signalj/SIGUSR1':
      return () => {
        throw new CtlError(
          'unimplemented',
          'this program does nothing on SIGUSR1, for which Node.js would open its debugger to the machine',
        );
      };
    default:
      return undefined;
  }
}

/** Time to send the answer before the program ends. */
const ANSWER_MS = 200;

/** A collection stops the program for some tenths of a second. */
const COLLECTION_INTERVAL_MS = 10_000;
let collectedAt = Number.NEGATIVE_INFINITY;

function collectGarbage(): void {
  if (performance.now() - collectedAt < COLLECTION_INTERVAL_MS) {
    throw new CtlError('resource_exhausted', 'garbage was collected within the last 10 s');
  }
  collectedAt = performance.now();
  // Makes `gc` a global of new contexts. Node.js has no other way to ask for it while it runs.
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('gc');
  setFlagsFromString('--no-expose-gc');
  if (typeof collect === 'function') collect();
}

function processFacts() {
  return {
    egid: process.getegid?.(),
    euid: process.geteuid?.(),
    gid: process.getgid?.(),
    groups: process.getgroups?.() ?? [],
    pid: process.pid,
    ppid: process.ppid,
    uid: process.getuid?.(),
    wd: process.cwd(),
    hostname: hostname(),
    tempdir: tmpdir(),
    uptimeSeconds: Math.round(process.uptime()),
    cpuMicroseconds: process.cpuUsage(),
    activeResources: process.getActiveResourcesInfo().length,
  };
}
