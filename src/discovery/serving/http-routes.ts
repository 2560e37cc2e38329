/** Handles the requests to the HTTP address and the monitoring address. */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Registry } from 'prom-client';
import type { BuildInfo } from '../../core/build-info.ts';
import { systemClock } from '../../core/clock.ts';
import { CtlError, messageOf } from '../../core/errors.ts';
import { INTERNAL_FETCH_HEADER } from '../../core/network/internal-fetch.ts';
import {
  type DebugSource,
  handleDebug,
  isDebugPath,
  needsProof,
  type PageMaker,
  type SourceStatus,
} from '../../debug/index.ts';
import type { Metrics, Profiler } from '../../observe/index.ts';
import { staleMs } from '../../sources/index.ts';
import type { DebugAccess } from './debug-access.ts';

function send(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8', 'x-content-type-options': 'nosniff' });
  response.end(text);
}

/** Answers a refused request with the status and headers of the error. */
function refuse(response: ServerResponse, error: CtlError): void {
  if (error.code === 'unauthenticated') response.setHeader('www-authenticate', 'Bearer');
  if (error.code === 'unavailable') response.setHeader('retry-after', '5');
  const statuses: Partial<Record<CtlError['code'], number>> = { unauthenticated: 401, permission_denied: 403 };
  send(response, statuses[error.code] ?? 503, `${error.oneLine()}\n`);
}

type Answer = (path: string, request: IncomingMessage, response: ServerResponse) => Promise<void>;

/**
 * Guards the listener: no request may end the process. Requests of this program itself are refused, because the author
 * of a policy chooses their URL and could otherwise read pages that the network does not expose.
 */
function guarded(answer: Answer): RequestListener {
  const answered = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    if (request.headers[INTERNAL_FETCH_HEADER] !== undefined)
      return send(response, 403, 'key sets cannot be fetched from this address\n');
    const path = URL.parse(request.url ?? '/', 'http://localhost')?.pathname;
    if (path === undefined) send(response, 400, 'the request target is not a URL\n');
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

export type ProgramState = 'starting' | 'ready' | 'stopping';

export interface HttpRoutes {
  /** Ready: configuration is read and proxies are served. */
  readonly state: () => ProgramState;
  /** Undefined while the mesh is being read. */
  readonly debug: () => DebugSource | undefined;
  /** Empty until sources are configured. */
  readonly sources: () => readonly SourceStatus[];
  /** The metrics of handlers of the policy component, as Prometheus reads them. */
  readonly policyPage: () => Promise<string>;
  /** Present with --profile. */
  readonly profiler: Profiler | undefined;
  /** Decides which parts of the debug pages a caller may see. */
  readonly access: DebugAccess;
  /** Shared by all addresses, so that pages are built one at a time. */
  readonly maker: PageMaker;
  readonly version: BuildInfo;
}

/**
 * The text of a ready program. If policies are refused, their last good versions or the strictest policies are in
 * force: proxies are served, but the state is degraded. The names of the policies are not public; `/debug/push_status`
 * has them.
 */
function readyText(source: DebugSource | undefined): string {
  const refused = source?.refusedPolicies() ?? [];
  if (refused.length === 0) return 'ready\n';
  const substitutes = refused.filter(({ inForce }) => inForce === 'substitute').length;
  const lastGood = refused.length - substitutes;
  const policies = `${refused.length} ${refused.length === 1 ? 'policy' : 'policies'} refused`;
  const inForce = `${lastGood} with the last good version, ${substitutes} with the strictest policy`;
  return `ready, degraded: ${policies}, ${inForce}; see /debug/push_status\n`;
}

/** Names the sources that are not read yet. The reasons are not public; the log has them. */
function notReadyText(sources: readonly SourceStatus[]): string {
  const waiting = sources.filter(({ synced }) => !synced).map(({ id }) => id);
  const forWhat = waiting.length === 0 ? '' : `, waiting for ${waiting.join(', ')}`;
  return `not ready: configuration is being read${forWhat}\n`;
}

/** A line for each source, as API servers write `/readyz?verbose`. */
function sourceLines(sources: readonly SourceStatus[]): string {
  const now = systemClock.now();
  const lines = sources.map(({ id, synced, health }) => {
    const stale = Math.ceil(staleMs(health, now) / 1000);
    const state = !synced
      ? 'not read yet'
      : stale > 0
        ? `stale for ${stale} s`
        : health.ok
          ? 'current'
          : 'not in force';
    return `[${synced && health.ok ? '+' : '-'}] ${id}: ${state}\n`;
  });
  return lines.join('');
}

function stateText({ state, debug, sources }: HttpRoutes): string {
  if (state() === 'ready') return readyText(debug());
  return state() === 'stopping' ? 'not ready: stopping\n' : notReadyText(sources());
}

/** Answers the public pages of both addresses. False for any other path. */
function answerPublic(routes: HttpRoutes, path: string, request: IncomingMessage, response: ServerResponse): boolean {
  const { version } = routes;
  if (path === '/ready') {
    const isVerbose = URL.parse(request.url ?? '/', 'http://localhost')?.searchParams.has('verbose') === true;
    const more = isVerbose ? sourceLines(routes.sources()) : '';
    send(response, routes.state() === 'ready' ? 200 : 503, `${stateText(routes)}${more}`);
  } else if (path === '/healthz') send(response, 200, 'ok\n');
  else if (path === '/version') send(response, 200, `${version.version}-${version.revision}-${version.status}\n`);
  else return false;
  return true;
}

/** Serves debug pages and profiles to callers who may see them. */
export async function answerDebug(
  routes: HttpRoutes,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { access, debug, maker, profiler } = routes;
  if (profiler?.handles(request) === true) {
    // A heap snapshot contains private keys.
    await access.allOrRefuse(request, 'profiles');
    return profiler.answer(request, response);
  }
  const viewer = await (needsProof(request) ? access.provedViewer(request) : access.viewerOf(request));
  const source = debug();
  if (source === undefined) throw new CtlError('unavailable', 'configuration is being read');
  await handleDebug({ source, viewer, maker }, request, response);
}

/** `--httpAddr`: readiness, the version, the debug interface, profiles. */
export function httpListener(routes: HttpRoutes): RequestListener {
  return guarded(async (path, request, response) => {
    if (answerPublic(routes, path, request, response)) return;
    if (isDebugPath(path)) await answerDebug(routes, request, response);
    else send(response, 404, 'not found, see /debug\n');
  });
}

export interface Scraped {
  readonly contentType: string;
  readonly text: string;
}

/** The registry as Prometheus text, after sampling the gauges. Counted as a scrape. */
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

/** `--monitoringAddr`: /metrics and all pages of the HTTP address, for tools that read them here. */
export function monitoringListener(routes: HttpRoutes, scrape: () => Promise<Scraped>): RequestListener {
  return guarded(async (path, request, response) => {
    if (answerPublic(routes, path, request, response)) return;
    if (isDebugPath(path)) return answerDebug(routes, request, response);
    if (path === POLICY_METRICS_PATH) return sendMetrics(response, METRICS_TYPE, await routes.policyPage());
    if (path !== '/metrics') return send(response, 404, 'not found, see /metrics and /debug\n');
    const { contentType, text } = await scrape();
    sendMetrics(response, contentType, text);
  });
}

/** The path of metrics that handlers of the policy component count, apart from those of this program. */
const POLICY_METRICS_PATH = '/policy/metrics';
const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

function sendMetrics(response: ServerResponse, contentType: string, text: string): void {
  response.writeHead(200, { 'content-type': contentType });
  response.end(text);
}
