/**
 * The applications behind the proxies of the demo. They answer with their name, and some paths are slow or fail so that
 * routes can handle it.
 */
import { createServer, type RequestListener } from 'node:http';
import type { Socket } from 'node:net';
import type { Owner } from '../../test/harness/index.ts';
import type { Place } from './ports.ts';

/** The answer of an application, with parts of the request. */
export interface ApplicationReply {
  readonly app: string;
  readonly path: string;
  readonly host: string;
  /** Header `x-called-by`, which a sample route sets. */
  readonly calledBy?: string;
  /** The header of this name: the caller, over mutual TLS. */
  readonly 'x-forwarded-client-cert'?: string;
  /** The answer of the application that this one called, or the reason why there is none. */
  readonly called?: ApplicationReply | string;
}

/** Longer than the timeout of every route of the samples, milliseconds. */
const SLOW_MS = 2000;

/** Longer than another application needs for an answer, milliseconds. */
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
 * `/slow` is slow and `/flaky` fails every second time. Any other path is answered at once, or after the answer of the
 * URL that the application `calls`.
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

/** Starts an application in this process. Its owner ends it. */
export function startApplication(owner: Owner, name: string, place: Place): Promise<void> {
  return listen(owner, place, application(name));
}

/** An HTTP server in this process. Its owner ends it. */
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
