/** The HTTP servers of the program: readiness and debug pages, monitoring, introspection. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Registry } from 'prom-client';
import { buildInfo } from '../../core/build-info.ts';
import { systemClock } from '../../core/clock.ts';
import { type DebugSource, PageMaker, type SourceStatus } from '../../debug/index.ts';
import { createProfiler, type Metrics, startIntrospection } from '../../observe/index.ts';
import {
  type DiscoverySettings,
  discoveryEnv,
  type Environment,
  type ListenAddress,
  parseListenAddress,
  shownEnvironment,
} from '../../settings/index.ts';
import { Closers } from '../process/closers.ts';
import type { DebugAccess } from './debug-access.ts';
import { startHttpServer } from './http.ts';
import { type HttpRoutes, httpListener, metricsText, monitoringListener, type ProgramState } from './http-routes.ts';

export interface HttpServersOptions {
  readonly settings: DiscoverySettings;
  readonly env: Environment;
  readonly registry: Registry;
  readonly metrics: Metrics;
  readonly state: () => ProgramState;
  /** Undefined while the mesh is being read. */
  readonly debug: () => DebugSource | undefined;
  readonly sources: () => readonly SourceStatus[];
  readonly access: DebugAccess;
  /** Sets the gauges. Called before each scrape. */
  readonly sample: () => void;
}

/** The addresses of each server, for the log. */
export type Listening = readonly (readonly [what: string, addresses: readonly ListenAddress[]])[];

export interface HttpServers {
  readonly listening: Listening;
  close(): Promise<void>;
}

/** Rejects with a CtlError that names the flag when an address is unusable. Then no server listens. */
export async function startHttpServers(options: HttpServersOptions): Promise<HttpServers> {
  const { settings, env, registry, metrics, state, debug, sources, access, sample } = options;
  const listening: (readonly [string, readonly ListenAddress[]])[] = [];
  const closers = new Closers();
  const close = (): Promise<void> => closers.close();
  const listen = async (
    what: string,
    host: string | undefined,
    starting: Promise<{ readonly port: number; close(): Promise<void> }>,
  ): Promise<void> => {
    const server = await starting;
    listening.push([what, [{ host, port: server.port }]]);
    closers.add(() => server.close());
  };
  const routes: HttpRoutes = {
    state,
    debug,
    sources,
    profiler: settings.profile ? createProfiler() : undefined,
    access,
    maker: new PageMaker({ now: systemClock.now, nextTurn: () => nextTurn() }),
    version: buildInfo(),
  };
  const scrape = () => metricsText(registry, sample, metrics);
  const [http, scraped] = [parseListenAddress(settings.httpAddr), parseListenAddress(settings.monitoringAddr)];
  const { introspectAddress } = settings;
  try {
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
        metrics: scrape,
      }),
    );
  } catch (error) {
    await close();
    throw error;
  }
  return { listening, close };
}
