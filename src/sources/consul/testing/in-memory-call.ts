/** Requests that a stand-in for Consul answers without a network, on a clock of the test. */
import type { Clock } from '../../../core/clock.ts';
import { CtlError } from '../../../core/errors.ts';
import type { HttpBytes } from '../../../core/network/http-call.ts';
import type { Call } from '../client.ts';
import { type StandInAnswer, StandInRegistry } from './stand-in-registry.ts';

/** What a request gets instead of the right answer. */
export type Fault = 'error 500' | 'error 429' | 'closed' | 'half' | 'empty' | 'no index' | 'no leader' | 'silent';

export interface InMemoryOptions {
  readonly registry: StandInRegistry;
  readonly clock: Clock;
  /** The fault of the next answer; undefined: none. */
  readonly fault?: (path: string) => Fault | undefined;
  /** How long an answer takes, ms. */
  readonly delayMs?: () => number;
}

export interface InMemory {
  readonly call: Call;
  /** The paths that were asked, with their queries. */
  readonly asked: string[];
  /** The servers that were asked. */
  readonly hosts: string[];
  /** Requests in progress, and the most at once. */
  readonly open: { now: number; most: number };
}

export function inMemoryConsul({
  registry,
  clock,
  fault = () => undefined,
  delayMs = () => 0,
}: InMemoryOptions): InMemory {
  const asked: string[] = [];
  const hosts: string[] = [];
  const open = { now: 0, most: 0 };
  const call: Call = async ({ to, timeoutMs, signal }) => {
    if (!(to instanceof URL)) throw new CtlError('internal', 'expected a URL');
    asked.push(`${to.pathname}${to.search}`);
    hosts.push(to.hostname);
    open.now++;
    open.most = Math.max(open.most, open.now);
    try {
      return await respond(to, timeoutMs, signal ?? new AbortController().signal);
    } finally {
      open.now--;
    }
  };
  const respond = async (to: URL, timeoutMs: number, signal: AbortSignal): Promise<HttpBytes> => {
    const path = to.pathname;
    if (fault(path) === undefined) await waitForChange(to, signal);
    const kind = fault(path);
    if (kind === 'silent') {
      await until(clock, timeoutMs, signal);
      throw new CtlError('deadline_exceeded', `no response within ${timeoutMs} ms`);
    }
    if (kind === 'closed') throw new CtlError('unavailable', 'the connection was closed');
    if (kind === 'error 500') return answerOf(500, {}, 'rpc error: No cluster leader');
    if (kind === 'error 429') return answerOf(429, {}, 'too many requests');
    const delay = delayMs();
    const answer = registry.answer(path);
    if (delay > 0) await until(clock, delay, signal);
    if (signal.aborted) throw new CtlError('unavailable', 'aborted');
    if (answer === undefined) return answerOf(404, {}, 'no such path');
    return answerOf(200, headersOf(answer, kind), bodyOf(answer, kind));
  };
  const waitForChange = async (to: URL, signal: AbortSignal): Promise<void> => {
    const index = Number(to.searchParams.get('index') ?? 0);
    const wait = Number.parseInt(to.searchParams.get('wait') ?? '0', 10);
    const current = registry.answer(to.pathname)?.index ?? 0;
    if (index === 0 || current > index) return;
    const topic = StandInRegistry.topicOf(to.pathname);
    await new Promise<void>((resolve) => {
      const stop = registry.onChange((topics) => topics.has(topic) && done());
      const timer = clock.setTimer(wait, () => done());
      const done = (): void => {
        stop();
        timer.cancel();
        resolve();
      };
      signal.addEventListener('abort', done);
    });
  };
  return { call, asked, hosts, open };
}

function headersOf({ index }: StandInAnswer, kind: Fault | undefined): HttpBytes['headers'] {
  return {
    ...(kind !== 'no index' && { 'x-consul-index': String(index) }),
    'x-consul-knownleader': String(kind !== 'no leader'),
    'x-consul-lastcontact': '0',
  };
}

function bodyOf({ body }: StandInAnswer, kind: Fault | undefined): string {
  if (kind === 'half') return body.slice(0, Math.floor(body.length / 2));
  if (kind === 'empty') return body.startsWith('[') ? '[]' : '{}';
  return body;
}

function answerOf(status: number, headers: HttpBytes['headers'], body: string): HttpBytes {
  return { status, headers, body: Buffer.from(body) };
}

function until(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const timer = clock.setTimer(ms, resolve);
    signal.addEventListener('abort', () => {
      timer.cancel();
      resolve();
    });
  });
}
