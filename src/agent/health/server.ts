/**
 * The agent's HTTP servers. The readiness port serves `/healthz/ready` and the application's probes. The status port
 * serves the same, the merged metrics, and `/quitquitquit`, which ends the agent as SIGTERM does, or with `?now`
 * without draining. That is accepted from programs of this machine only: not from other machines, and not from web
 * pages in a browser here.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { listen } from '../../core/network/listen.ts';
import { notLocal } from '../../core/network/loopback.ts';
import { type Closers, type Part, startParts } from '../../core/process/closers.ts';
import { closeServer, createBoundedServer } from '../../http/index.ts';
import { getScope } from '../../logging/index.ts';
import type { AppProbes } from './app-probes.ts';
import { probe } from './probes.ts';
import type { Readiness } from './readiness.ts';

export interface StatusDeps {
  readonly readiness: Pick<Readiness, 'check'>;
  readonly probes: AppProbes;
  readonly serveMetrics: (request: IncomingMessage, response: ServerResponse) => Promise<void>;
  /** Called by `/quitquitquit`; `now`: without draining. */
  readonly quit: (now: boolean) => void;
}

type Handler = (request: IncomingMessage, response: ServerResponse, path: string) => Promise<void>;

/** Listens on both ports. Rejects with a CtlError when one port is unavailable; then neither listens. */
export function startStatusServers(
  ports: { readonly readiness: number; readonly status: number },
  deps: StatusDeps,
): Promise<Part> {
  return startParts(getScope('default'), async (closers) => {
    await start(ports.status, statusHandler(deps), closers);
    if (ports.readiness !== ports.status) await start(ports.readiness, healthHandler(deps), closers);
    return {};
  });
}

async function start(port: number, handler: Handler, closers: Closers): Promise<void> {
  const name = `port ${port}`;
  const warn = (line: string): void => getScope('default').warn(line);
  const server = createBoundedServer({ name, warn }, (request, response) => {
    const [path = '/'] = (request.url ?? '/').split('?');
    request.resume();
    handler(request, response, path).catch(() => response.destroy());
  });
  await listen(server, name, { port }, warn);
  closers.add(() => closeServer(server));
}

function healthHandler({ readiness, probes }: StatusDeps): Handler {
  return async (request, response, path) => {
    const { method = 'GET', headers } = request;
    const known = probes.get(path);
    if (path !== '/healthz/ready' && known === undefined) return answer(response, 404, 'not found\n');
    if (method !== 'GET' && method !== 'HEAD') return answer(response, 405, 'GET only\n', { allow: 'GET, HEAD' });
    if (known !== undefined) return answer(response, await probe(known, headers), '');
    const why = await readiness.check();
    return why === undefined ? answer(response, 200, 'ready\n') : answer(response, 503, `not ready: ${why}\n`);
  };
}

function statusHandler(deps: StatusDeps): Handler {
  const health = healthHandler(deps);
  return async (request, response, path) => {
    if (path === '/stats/prometheus') return deps.serveMetrics(request, response);
    if (path !== '/quitquitquit') return health(request, response, path);
    const refusal = refusalOf(request);
    if (refusal !== undefined) return answer(response, 403, `${refusal}\n`);
    if (request.method !== 'POST') return answer(response, 405, 'POST only\n', { allow: 'POST' });
    const now = /\?(?:.*&)?now(?:[=&]|$)/.test(request.url ?? '');
    answer(response, 200, now ? 'stopping\n' : 'draining\n');
    deps.quit(now);
  };
}

/** Why a request to quit is refused; undefined when it is not. A browser sends `Origin` with every POST of a page. */
function refusalOf(request: IncomingMessage): string | undefined {
  const foreign = notLocal(request);
  if (foreign !== undefined) return `allowed only from this machine: ${foreign}`;
  return request.headers.origin === undefined
    ? undefined
    : 'not allowed from web pages: the request has an Origin header';
}

function answer(response: ServerResponse, status: number, text: string, headers: Record<string, string> = {}): void {
  response.writeHead(status, { 'content-type': 'text/plain', ...headers }).end(text);
}
