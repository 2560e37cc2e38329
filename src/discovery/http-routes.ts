/** What the HTTP and the monitoring address answer. */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Registry } from 'prom-client';
import type { BuildInfo } from '../core/build-info.ts';
import { CtlError, messageOf } from '../core/errors.ts';
import { INTERNAL_FETCH_HEADER } from '../core/internal-fetch.ts';
import { type DebugSource, handleDebug, isDebugPath, type PageMaker, type SourceStatus } from '../debug/index.ts';
import type { Metrics, Profiler } from '../observe/index.ts';
import type { DebugAccess } from './debug-access.ts';

function send(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8', 'x-content-type-options': 'nosniff' });
  response.end(text);
}

/** HTTP status of a request that is not answered, and the headers that go with it. */
function refuse(response: ServerResponse, error: CtlError): void {
  if (error.code === 'unauthenticated') response.setHeader('www-authenticate', 'Bearer');
  if (error.code === 'unavailable') response.setHeader('retry-after', '5');
  const statuses: Partial<Record<CtlError['code'], number>> = { unauthenticated: 401, permission_denied: 403 };
  send(response, statuses[error.code] ?? 503, `${error.oneLine()}\n`);
}

type Answer = (path: string, request: IncomingMessage, response: ServerResponse) => Promise<void>;

/**
 * Whoever connects chooses the target and what a page is made of: nothing of it may end the process. Whoever writes a
 * policy chooses what this program itself asks for: that is no way to profiles and pages that the network keeps from
 * him.
 */
function guarded(answer: Answer): RequestListener {
  const answered = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    if (request.headers[INTERNAL_FETCH_HEADER] !== undefined) return send(response, 403, 'not for key servers\n');
    const path = URL.parse(request.url ?? '/', 'http://localhost')?.pathname;
    if (path === undefined) send(response, 400, 'the request target is no URL\n');
    else await answer(path, request, response);
  };
  return (request, response) => {
    answered(request, response).catch((error: unknown) => {
      if (response.headersSent) response.destroy();
      else if (error instanceof CtlError && error.code !== 'internal') refuse(response, error);
      else send(response, 500, `${messageOf(error)}\n`);
    });
  };
}

export interface HttpRoutes {
  /** True once configuration is read and proxies are served. */
  readonly ready: () => boolean;
  /** Undefined until there is something to show. */
  readonly debug: () => DebugSource | undefined;
  /** None until the first are opened. */
  readonly sources: () => readonly SourceStatus[];
  /** Present with --profile. */
  readonly profiler: Profiler | undefined;
  /** Who may see what of the debug pages. */
  readonly access: DebugAccess;
  /** One for all addresses: pages are made one at a time. */
  readonly maker: PageMaker;
  readonly version: BuildInfo;
}

/**
 * A policy that is refused is in force as it last was, or as strict as can be: proxies are served, but not with what
 * was written. Which policies these are is not for everybody to know; `/debug/push_status` says it.
 */
function readyText(source: DebugSource | undefined): string {
  const refused = source?.refusedPolicies() ?? [];
  if (refused.length === 0) return 'ready\n';
  const substitutes = refused.filter(({ inForce }) => inForce === 'substitute').length;
  const lastGood = refused.length - substitutes;
  const policies = `${refused.length} ${refused.length === 1 ? 'policy' : 'policies'} refused`;
  return `ready, degraded: ${policies}, ${lastGood} in force as last good, ${substitutes} as strict as can be; see /debug/push_status\n`;
}

/** What is waited for; why a source cannot be read is in the log, and not for everybody to know. */
function notReadyText(sources: readonly SourceStatus[]): string {
  const waiting = sources.filter(({ synced }) => !synced).map(({ id }) => id);
  const forWhat = waiting.length === 0 ? '' : `, waiting for ${waiting.join(', ')}`;
  return `not ready: configuration is being read${forWhat}\n`;
}

/** What both addresses answer, and everybody may know; false when the request is for something else. */
function answerPublic({ ready, debug, sources, version }: HttpRoutes, path: string, response: ServerResponse): boolean {
  if (path === '/ready') send(response, ready() ? 200 : 503, ready() ? readyText(debug()) : notReadyText(sources()));
  else if (path === '/healthz') send(response, 200, 'ok\n');
  else if (path === '/version') send(response, 200, `${version.version}-${version.revision}-${version.status}\n`);
  else return false;
  return true;
}

/** The debug interface and profiles: for those alone who may see them. */
async function answerDebug(routes: HttpRoutes, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { access, debug, maker, profiler } = routes;
  if (profiler?.handles(request) === true) {
    // A heap snapshot holds all that the program knows, private keys too.
    await access.allOrRefuse(request);
    return profiler.answer(request, response);
  }
  const viewer = await access.viewerOf(request);
  const source = debug();
  if (source === undefined) throw new CtlError('unavailable', 'configuration is being read');
  await handleDebug({ source, viewer, maker }, request, response);
}

/** `--httpAddr`: readiness, the version, the debug interface, profiles. */
export function httpListener(routes: HttpRoutes): RequestListener {
  return guarded(async (path, request, response) => {
    if (answerPublic(routes, path, response)) return;
    if (isDebugPath(path)) await answerDebug(routes, request, response);
    else send(response, 404, 'not found, see /debug\n');
  });
}

export interface Scraped {
  readonly contentType: string;
  readonly text: string;
}

/** The registry as Prometheus text, with the gauges brought up to date; counted as a scrape. */
export async function metricsText(
  registry: Registry,
  sample: () => void,
  counters: Pick<Metrics, 'scrapes_total' | 'scrape_failures_total'>,
): Promise<Scraped> {
  counters.scrapes_total.inc();
  try {
    sample();
    return { contentType: registry.contentType, text: await registry.metrics() };
  } catch (error) {
    counters.scrape_failures_total.inc();
    throw error;
  }
}

/** `--monitoringAddr`: /metrics, and what the HTTP address answers, for tools that read all of it here. */
export function monitoringListener(routes: HttpRoutes, scrape: () => Promise<Scraped>): RequestListener {
  return guarded(async (path, request, response) => {
    if (answerPublic(routes, path, response)) return;
    if (isDebugPath(path)) return answerDebug(routes, request, response);
    if (path !== '/metrics') return send(response, 404, 'not found, see /metrics and /debug\n');
    const { contentType, text } = await scrape();
    response.writeHead(200, { 'content-type': contentType });
    response.end(text);
  });
}
