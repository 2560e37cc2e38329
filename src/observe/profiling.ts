/**
 * Profiles of the running program under `/debug/pprof` (`--profile`): CPU profiles and heap snapshots, in the formats
 * of the developer tools of Chrome and VS Code. A profile costs time and memory, so there is one at a time and a CPU
 * profile has a limit. A heap snapshot contains private keys: the caller of `answer` must first authorize the request
 * to see everything.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Session } from 'node:inspector/promises';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { getHeapSnapshot } from 'node:v8';
import { messageOf } from '../core/errors.ts';
import { goneSignal } from '../http/index.ts';

const PREFIX = '/debug/pprof';
const DEFAULT_SECONDS = 30;
const MAX_SECONDS = 300;

const INDEX = `Profiles of this program, one at a time:
${PREFIX}/profile?seconds=${DEFAULT_SECONDS}   CPU profile (.cpuprofile), 1 to ${MAX_SECONDS} seconds
${PREFIX}/heap                 heap snapshot (.heapsnapshot): contains private keys; the program stops while it is taken
`;

export interface Profiler {
  /** Whether a request is for profiles. */
  handles(request: IncomingMessage): boolean;
  /** Answers a request below `/debug/pprof`. */
  answer(request: IncomingMessage, response: ServerResponse): Promise<void>;
}

/**
 * @param wait resolves after this many milliseconds, or rejects when the signal aborts
 */
export function createProfiler(
  wait: (ms: number, signal: AbortSignal) => Promise<unknown> = (ms, signal) => sleep(ms, undefined, { signal }),
): Profiler {
  let busy = false;

  const answer = async (url: URL, request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const kind = url.pathname.slice(PREFIX.length).replace(/\/$/, '');
    if (request.method !== 'GET') return refuse(response, 405, 'only GET is supported');
    if (kind === '') return refuse(response, 200, INDEX);
    if (kind !== '/profile' && kind !== '/heap') return refuse(response, 404, `no profile ${kind}, see ${PREFIX}`);
    const seconds = Number(url.searchParams.get('seconds') ?? DEFAULT_SECONDS);
    if (!(seconds > 0 && seconds <= MAX_SECONDS)) {
      return refuse(response, 400, `seconds must be a number up to ${MAX_SECONDS}`);
    }
    if (busy) return refuse(response, 503, 'another profile is being taken');
    busy = true;
    try {
      if (kind === '/heap') await sendHeapSnapshot(response);
      else await sendCpuProfile(response, seconds * 1000, wait);
    } catch (error) {
      // The client may have closed the connection during the answer.
      if (response.headersSent) response.destroy();
      else refuse(response, 500, messageOf(error));
    } finally {
      busy = false;
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

async function sendCpuProfile(
  response: ServerResponse,
  ms: number,
  wait: (ms: number, signal: AbortSignal) => Promise<unknown>,
): Promise<void> {
  const gone = goneSignal(response);
  const session = new Session();
  session.connect();
  try {
    await session.post('Profiler.enable');
    await session.post('Profiler.start');
    await wait(ms, gone);
    const { profile } = await session.post('Profiler.stop');
    download(response, 'cpuprofile');
    response.end(JSON.stringify(profile));
  } finally {
    session.disconnect();
  }
}

async function sendHeapSnapshot(response: ServerResponse): Promise<void> {
  download(response, 'heapsnapshot');
  // A stream with backpressure, because the text is several times as large as the heap.
  await pipeline(getHeapSnapshot(), response);
}

function urlOf({ url = '/' }: IncomingMessage): URL {
  return new URL(url, 'http://localhost');
}

function download(response: ServerResponse, extension: string): void {
  response.writeHead(200, {
    'content-type': 'application/json',
    'content-disposition': `attachment; filename="meshd-${process.pid}.${extension}"`,
  });
}

function refuse(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' });
  response.end(text.endsWith('\n') ? text : `${text}\n`);
}
