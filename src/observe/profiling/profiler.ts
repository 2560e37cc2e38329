/**
 * Profiles of the running program under `/debug/pprof` (`--profile`), by the paths of Go's net/http/pprof and in the
 * format of `go tool pprof`, or in those of the developer tools of Chrome. A profile costs time and memory, so there is
 * one at a time and each has a limit. A heap snapshot contains private keys: the caller of `answer` must first
 * authorize the request to see everything.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { HeapProfiler, Profiler as ProfilerDomain } from 'node:inspector';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { getHeapSnapshot } from 'node:v8';
import { CtlError, messageOf } from '../../core/errors.ts';
import { goneSignal } from '../../http/index.ts';
import { cpuProfile, heapProfile } from './pprof.ts';
import { type InspectedThread, Inspection, MAIN_THREAD } from './threads.ts';

const PREFIX = '/debug/pprof';

type Kind = 'profile' | 'heap' | 'allocs' | 'trace';
type Format = 'pprof' | 'chrome' | 'snapshot';

interface KindInfo {
  readonly what: string;
  /** The first is the default. */
  readonly formats: readonly Format[];
  readonly seconds: number;
  readonly maxSeconds: number;
}

const KINDS: Readonly<Record<Kind, KindInfo>> = {
  profile: { what: 'CPU time', formats: ['pprof', 'chrome'], seconds: 30, maxSeconds: 300 },
  heap: {
    what: 'memory that was allocated during the time and has not been collected',
    formats: ['pprof', 'chrome', 'snapshot'],
    seconds: 10,
    maxSeconds: 300,
  },
  allocs: {
    what: 'memory that was allocated during the time',
    formats: ['pprof', 'chrome'],
    seconds: 10,
    maxSeconds: 300,
  },
  trace: { what: 'events of all threads', formats: ['chrome'], seconds: 5, maxSeconds: 60 },
};

/** Time between two samples, microseconds: that of Go. 300 s are then 30,000 samples. */
const SAMPLING_MICROSECONDS = 10_000;
/** Mean bytes between two samples: that of Go. */
const SAMPLING_BYTES = 512 * 1024;
const TRACE_CATEGORIES = ['node', 'node.perf', 'node.threadpoolwork.async', 'v8'];
/** Some 200 bytes each. */
const MAX_TRACE_EVENTS = 200_000;

const INDEX = `Profiles of this program, one at a time, for go tool pprof:

${Object.entries(KINDS)
  .map(
    ([kind, { what, formats, seconds, maxSeconds }]) =>
      `${PREFIX}/${kind}?seconds=${seconds}  ${what}; up to ${maxSeconds} s; format=${formats.join('|')}\n`,
  )
  .join('')}${PREFIX}/cmdline  the command line

thread=N selects a thread, by default 0. format=chrome is for the developer tools of Chrome, format=snapshot a heap
snapshot of the main thread, which contains private keys; the program stops while it is taken. Threads now:

`;

export interface Profiler {
  /** Whether a request is for profiles. */
  handles(request: IncomingMessage): boolean;
  /** Answers a request below `/debug/pprof`. */
  answer(request: IncomingMessage, response: ServerResponse): Promise<void>;
}

/** Resolves after this many milliseconds, or rejects when the signal aborts. */
type Wait = (ms: number, signal: AbortSignal) => Promise<unknown>;

export function createProfiler(wait: Wait = (ms, signal) => sleep(ms, undefined, { signal })): Profiler {
  let busy = false;

  const answer = async (url: URL, request: IncomingMessage, response: ServerResponse): Promise<void> => {
    if (request.method !== 'GET') return refuse(response, 405, 'only GET is supported');
    const path = url.pathname.slice(PREFIX.length).replace(/^\/|\/$/g, '');
    if (path === 'cmdline') return sendText(response, 200, process.argv.join('\0'));
    if (path !== '' && !isKind(path)) return refuse(response, 404, `no profile ${path}, see ${PREFIX}`);
    const asked = path === '' ? undefined : readQuery(path, url.searchParams);
    if (typeof asked === 'string') return refuse(response, 400, asked);
    if (busy) return refuse(response, 503, 'another profile is being taken');
    busy = true;
    try {
      // The program is free for the next profile when the client has this one.
      const taken = await inspected((inspection) => take(asked, inspection, goneSignal(response), wait)).finally(() => {
        busy = asked?.format === 'snapshot';
      });
      await taken(response);
    } catch (error) {
      // The client may have closed the connection during the answer.
      if (response.headersSent) response.destroy();
      else refuse(response, error instanceof CtlError && error.code === 'not_found' ? 404 : 503, messageOf(error));
    } finally {
      if (asked?.format === 'snapshot') busy = false;
    }
  };

  return {
    handles: (request) => {
      const { pathname } = urlOf(request);
      return pathname === PREFIX || pathname.startsWith(`${PREFIX}/`);
    },
    answer: (request, response) => answer(urlOf(request), request, response),
  };
}

interface Asked {
  readonly kind: Kind;
  readonly format: Format;
  readonly thread: number;
  readonly seconds: number;
}

function isKind(text: string): text is Kind {
  return Object.hasOwn(KINDS, text);
}

/** What is asked for, or what is wrong with it. */
function readQuery(kind: Kind, query: URLSearchParams): Asked | string {
  const info = KINDS[kind];
  const seconds = Number(query.get('seconds') ?? info.seconds);
  if (!(seconds > 0 && seconds <= info.maxSeconds)) return `seconds must be a number up to ${info.maxSeconds}`;
  const format = info.formats.find((each) => each === (query.get('format') ?? info.formats[0]));
  if (format === undefined) return `format must be one of ${info.formats.join(', ')}`;
  const thread = Number(query.get('thread') ?? MAIN_THREAD);
  if (!Number.isInteger(thread)) return `thread must be a number, see ${PREFIX}`;
  if (thread !== MAIN_THREAD && (kind === 'trace' || format === 'snapshot')) return 'thread does not apply here';
  return { kind, format, thread, seconds };
}

async function threadLines(inspection: Inspection): Promise<string> {
  return (await inspection.threads()).map(({ id, name }) => `${id}  ${name}\n`).join('');
}

/** Sends what was taken. */
type Send = (response: ServerResponse) => unknown;

async function inspected<T>(run: (inspection: Inspection) => Promise<T>): Promise<T> {
  const inspection = new Inspection();
  try {
    return await run(inspection);
  } finally {
    await inspection.close();
  }
}

/** @param asked undefined: the list of threads */
async function take(asked: Asked | undefined, inspection: Inspection, gone: AbortSignal, wait: Wait): Promise<Send> {
  if (asked === undefined) {
    const text = INDEX + (await threadLines(inspection));
    return (response) => sendText(response, 200, text);
  }
  const { kind, format, seconds } = asked;
  // A stream with backpressure, because the text is several times as large as the heap.
  if (format === 'snapshot') return (response) => pipeline(getHeapSnapshot(), download(response, 'heapsnapshot'));
  const waiting = (): Promise<unknown> => wait(seconds * 1000, gone);
  if (kind === 'trace') return takeTrace(inspection, waiting);
  const thread = await inspection.thread(asked.thread);
  if (thread === undefined) throw new CtlError('not_found', `no thread ${asked.thread}, see ${PREFIX}`);
  return kind === 'profile' ? takeCpuProfile(asked, thread, waiting) : takeHeapProfile(kind, asked, thread, waiting);
}

async function takeCpuProfile(
  { format, thread: id }: Asked,
  thread: InspectedThread,
  waiting: () => Promise<unknown>,
): Promise<Send> {
  const at = Date.now();
  await thread.post('Profiler.enable');
  try {
    await thread.post('Profiler.setSamplingInterval', { interval: SAMPLING_MICROSECONDS });
    await thread.post('Profiler.start');
    await waiting();
    const { profile } = (await thread.post('Profiler.stop')) as ProfilerDomain.StopReturnType;
    if (format === 'chrome') return sendsJson(profile, 'cpuprofile');
    const encoded = await cpuProfile(profile, SAMPLING_MICROSECONDS, at, comment(id));
    return (response) => download(response, 'pprof').end(encoded);
  } finally {
    await thread.post('Profiler.disable');
  }
}

async function takeHeapProfile(
  kind: 'heap' | 'allocs',
  { format, thread: id }: Asked,
  thread: InspectedThread,
  waiting: () => Promise<unknown>,
): Promise<Send> {
  const at = Date.now();
  const collected = kind === 'allocs';
  await thread.post('HeapProfiler.startSampling', {
    samplingInterval: SAMPLING_BYTES,
    includeObjectsCollectedByMajorGC: collected,
    includeObjectsCollectedByMinorGC: collected,
  });
  let profile: HeapProfiler.SamplingHeapProfile;
  try {
    await waiting();
  } finally {
    ({ profile } = (await thread.post('HeapProfiler.stopSampling')) as HeapProfiler.StopSamplingReturnType);
  }
  if (format === 'chrome') return sendsJson(profile, 'heapprofile');
  const taken = { interval: SAMPLING_BYTES, at, ms: Date.now() - at, comment: comment(id) };
  const encoded = await heapProfile(profile, collected ? 'alloc_space' : 'inuse_space', taken);
  return (response) => download(response, 'pprof').end(encoded);
}

/** https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU: what chrome://tracing reads. */
async function takeTrace(inspection: Inspection, waiting: () => Promise<unknown>): Promise<Send> {
  const { events, dropped } = await inspection.trace(TRACE_CATEGORIES, MAX_TRACE_EVENTS, waiting);
  return sendsJson({ traceEvents: events, otherData: { dropped } }, 'trace.json');
}

function sendsJson(value: unknown, extension: string): Send {
  const text = JSON.stringify(value);
  return (response) => download(response, extension).end(text);
}

const comment = (thread: number): string => `thread ${thread} of process ${process.pid}`;

function urlOf({ url = '/' }: IncomingMessage): URL {
  return new URL(url, 'http://localhost');
}

function download(response: ServerResponse, extension: string): ServerResponse {
  return response.writeHead(200, {
    'content-type': extension === 'pprof' ? 'application/octet-stream' : 'application/json',
    'content-disposition': `attachment; filename="meshd-${process.pid}.${extension}"`,
    'x-content-type-options': 'nosniff',
  });
}

function refuse(response: ServerResponse, status: number, text: string): void {
  sendText(response, status, `${text}\n`);
}

function sendText(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8', 'x-content-type-options': 'nosniff' });
  response.end(text);
}
