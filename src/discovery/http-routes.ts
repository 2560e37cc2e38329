/** What the HTTP and the monitoring address answer. */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Registry } from 'prom-client';
import { OWN_FETCH_HEADER } from '../core/own-fetch.ts';
import { type DebugSource, handleDebug } from '../observe/debug/index.ts';
import type { Profiler } from '../observe/index.ts';

function send(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' });
  response.end(text);
}

/**
 * Whoever connects chooses the target and what a page is made of: nothing of it may end the process. Whoever writes a policy chooses what
 * this program itself asks for: that is no way to profiles and pages that the network keeps from him.
 */
function guarded(answer: (path: string, request: IncomingMessage, response: ServerResponse) => void): RequestListener {
  return (request, response) => {
    try {
      if (request.headers[OWN_FETCH_HEADER] !== undefined) return send(response, 403, 'not for key servers\n');
      const path = URL.parse(request.url ?? '/', 'http://localhost')?.pathname;
      if (path === undefined) send(response, 400, 'the request target is no URL\n');
      else answer(path, request, response);
    } catch (error) {
      if (response.headersSent) response.destroy();
      else send(response, 500, `${error instanceof Error ? error.message : String(error)}\n`);
    }
  };
}

export interface HttpRoutes {
  /** True once configuration is read and proxies are served. */
  readonly ready: () => boolean;
  /** Undefined until there is something to show. */
  readonly debug: () => DebugSource | undefined;
  /** Present with --profile. */
  readonly profiler: Profiler | undefined;
}

/** `--httpAddr`: readiness, the debug interface, profiles. */
export function httpListener({ ready, debug, profiler }: HttpRoutes): RequestListener {
  return guarded((path, request, response) => {
    if (path === '/ready') {
      send(response, ready() ? 200 : 503, ready() ? 'ready\n' : 'not ready: configuration is being read\n');
      return;
    }
    if (profiler?.handle(request, response) !== undefined) return;
    const source = debug();
    if (source === undefined && path.startsWith('/debug')) send(response, 503, 'configuration is being read\n');
    else if (source === undefined || !handleDebug(source, request, response))
      send(response, 404, 'not found, see /debug\n');
  });
}

/** The registry as Prometheus text, with the gauges brought up to date. */
export async function metricsText(
  registry: Registry,
  sample: () => void,
): Promise<{ contentType: string; text: string }> {
  sample();
  return { contentType: registry.contentType, text: await registry.metrics() };
}

/** `--monitoringAddr`: /metrics, and /ready for whoever watches only this port. */
export function monitoringListener(registry: Registry, sample: () => void, ready: () => boolean): RequestListener {
  return guarded((path, _request, response) => {
    if (path === '/ready') return send(response, ready() ? 200 : 503, ready() ? 'ready\n' : 'not ready\n');
    if (path !== '/metrics') return send(response, 404, 'not found, see /metrics\n');
    metricsText(registry, sample).then(
      ({ contentType, text }) => {
        response.writeHead(200, { 'content-type': contentType });
        response.end(text);
      },
      (error: unknown) => send(response, 500, `${error instanceof Error ? error.message : String(error)}\n`),
    );
  });
}
