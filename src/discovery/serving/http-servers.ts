/** The HTTP servers of the program: readiness and debug pages, monitoring, introspection. */
import type { RequestListener } from 'node:http';
import type { Registry } from 'prom-client';
import { buildInfo } from '../../core/build-info.ts';
import { type Address, listen } from '../../core/network/listen.ts';
import { startParts } from '../../core/process/closers.ts';
import type { PageMaker } from '../../debug/index.ts';
import { closeServer, createBoundedServer } from '../../http/index.ts';
import { startIntrospection } from '../../introspection/index.ts';
import { getScope } from '../../logging/index.ts';
import { createProfiler, type Metrics } from '../../observe/index.ts';
import { pagesUrl } from '../../paths.ts';
import {
  type DiscoverySettings,
  discoveryEnv,
  discoveryFlags,
  type Environment,
  type ListenAddress,
  parseListenAddress,
  shownEnvironment,
  shownFlags,
} from '../../settings/index.ts';
import { refusalLog } from '../pipeline/observers.ts';
import { DebugAccess } from './debug-access.ts';
import { answerDebug, type HttpRoutes, httpListener, metricsText, monitoringListener } from './http-routes.ts';
import type { ProgramStatus } from './program-status.ts';

export interface HttpServersOptions {
  readonly settings: DiscoverySettings;
  readonly env: Environment;
  readonly registry: Registry;
  readonly metrics: Metrics;
  readonly status: ProgramStatus;
  readonly maker: PageMaker;
}

/** The addresses of each server, for the log. */
export type Listening = readonly (readonly [what: string, addresses: readonly ListenAddress[]])[];

export interface HttpServers {
  readonly listening: Listening;
  close(): Promise<void>;
}

/** Rejects with a CtlError that names the flag when an address is unusable. Then no server listens. */
export function startHttpServers(options: HttpServersOptions): Promise<HttpServers> {
  const { settings, env, registry, metrics, status, maker } = options;
  const { introspectAddress } = settings;
  const routes: HttpRoutes = {
    ...status.shown,
    profiler: settings.profile ? createProfiler() : undefined,
    access: debugAccess(settings, status),
    maker,
    version: buildInfo(),
  };
  const scrape = () => metricsText(registry, () => status.sample(), metrics);
  const [http, scraped] = [parseListenAddress(settings.httpAddr), parseListenAddress(settings.monitoringAddr)];
  return startParts(getScope('default'), async (closers) => {
    const listening: [string, readonly ListenAddress[]][] = [];
    const listen = async (what: string, host: string | undefined, starting: Promise<HttpServer>): Promise<void> => {
      const { port } = closers.use(await starting);
      listening.push([what, [{ host, port }]]);
    };
    await listen('HTTP', http.host, startHttpServer('--httpAddr', http, httpListener(routes)));
    const monitoring = monitoringListener(routes, scrape);
    await listen('monitoring', scraped.host, startHttpServer('--monitoringAddr', scraped, monitoring));
    await listen(
      'introspection',
      introspectAddress === '*' ? undefined : introspectAddress,
      startIntrospection({
        program: 'ctl-discovery',
        address: introspectAddress,
        port: settings.introspectPort,
        build: buildInfo(),
        environment: shownEnvironment(discoveryEnv, env),
        args: process.argv.slice(1),
        flags: shownFlags(discoveryFlags, settings),
        access: routes.access,
        debug: (request, response) => answerDebug(routes, request, response),
        pages: pagesUrl(),
        metrics: scrape,
      }),
    );
    return { listening };
  });
}

function debugAccess({ debugAuth }: DiscoverySettings, { shown: { callers, home } }: ProgramStatus): DebugAccess {
  if (!debugAuth) {
    getScope('default').warn('CTL_DEBUG_AUTH=false: any client that reaches the debug pages sees the whole mesh');
  }
  const refused = refusalLog('default');
  return new DebugAccess({
    callers,
    home,
    open: !debugAuth,
    refused: (address, error) =>
      refused(address.includes(':') ? `[${address}]` : address, error, 'a request for debug pages'),
  });
}

/** Starts and stops plain HTTP servers. */
export interface HttpServer {
  readonly port: number;
  close(): Promise<void>;
}

/** Resolves when the server listens. Rejects with CtlError `unavailable` that names the flag and the address. */
export async function startHttpServer(flag: string, address: Address, listener: RequestListener): Promise<HttpServer> {
  const warn = (line: string): void => getScope('default').warn(line);
  const server = createBoundedServer({ name: flag, warn }, listener);
  const port = await listen(server, flag, address, warn);
  return {
    port,
    close: () => closeServer(server),
  };
}
