/**
 * The applications behind the demo's proxies: they say who answered, and misbehave where a route is there to cope with
 * it.
 */
import { createServer, type RequestListener } from 'node:http';
import type { Socket } from 'node:net';
import type { Owner } from '../../../test/harness/index.ts';
import type { Place } from './ports.ts';

/** What an application answers about the request that reached it. */
export interface ApplicationReply {
  readonly app: string;
  readonly path: string;
  readonly host: string;
  /** Header `x-called-by`, which a sample route sets. */
  readonly calledBy?: string;
  /** Header of that name: who called, when it was over mutual TLS. */
  readonly 'x-forwarded-client-cert'?: string;
  /** What the application answered that this one called for it, or why there is no answer. */
  readonly called?: ApplicationReply | string;
}

/** Longer than any route of the samples waits, milliseconds. */
const SLOW_MS = 2000;

/** Longer than an answer of another application takes, milliseconds. */
const CALL_TIMEOUT_MS = 2000;

async function answerOf(url: string): Promise<ApplicationReply | string> {
  try {
    const answer = await fetch(url, { signal: AbortSignal.timeout(CALL_TIMEOUT_MS) });
    return answer.ok ? ((await answer.json()) as ApplicationReply) : `status ${answer.status}`;
  } catch {
    return 'no answer';
  }
}

/**
 * `/slow` takes its time and `/flaky` fails every other time; everything else is answered at once, or as soon as the
 * one that it `calls` (a URL) has answered.
 */
export function application(app: string, calls?: string): RequestListener {
  let flaky = 0;
  return (request, response) => {
    const { url: path = '/', headers } = request;
    const calledBy = headers['x-called-by'];
    const certificate = headers['x-forwarded-client-cert'];
    const reply: ApplicationReply = {
      app,
      path,
      host: headers.host ?? '',
      ...(typeof calledBy === 'string' ? { calledBy } : {}),
      ...(typeof certificate === 'string' ? { 'x-forwarded-client-cert': certificate } : {}),
    };
    const answer = (status: number, more: Partial<ApplicationReply> = {}) => {
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(`${JSON.stringify({ ...reply, ...more })}\n`);
    };
    if (path.startsWith('/slow')) setTimeout(answer, SLOW_MS, 200).unref();
    else if (path.startsWith('/flaky')) answer(flaky++ % 2 === 0 ? 503 : 200);
    else if (calls !== undefined) void answerOf(calls).then((called) => answer(200, { called }));
    else answer(200);
  };
}

/** Starts an application in this process; it ends with its owner. */
export function startApplication(owner: Owner, name: string, place: Place): Promise<void> {
  return listen(owner, place, application(name));
}

/** An HTTP server in this process; it ends with its owner. */
export async function listen(owner: Owner, place: Place, listener: RequestListener): Promise<void> {
  const server = createServer(listener);
  const open = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(place.port, place.address, resolve);
  });
  owner.after(() => {
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    for (const socket of open) socket.destroy();
    return closed;
  });
}
