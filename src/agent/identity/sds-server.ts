/**
 * Envoy's secret discovery service (envoy.service.secret.v3.SecretDiscoveryService) on a Unix domain socket, both
 * streaming variants. New secrets are sent to every stream that subscribed to them; a stream that was opened before
 * there were any waits.
 */
import { CtlError, oneLineOf } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import type { WallClock } from '../../core/wall-clock.ts';
import { endWithError, type ServerStream, startGrpcServer } from '../grpc/index.ts';
import type { IdentityCounters } from './metrics.ts';
import { createSecretStream, type SecretStream, type SecretTable, type Variant } from './sds-protocol.ts';

export interface SdsServer {
  /** Replaces the secrets, and sends changed ones to the streams that subscribed to them. */
  publish(table: SecretTable): void;
  /** Whether any stream is subscribed to a name. */
  isWanted(name: string): boolean;
  close(): Promise<void>;
}

export interface SdsServerOptions {
  readonly path: string;
  readonly staleIntervalMs: number;
  readonly clock: WallClock;
  readonly counters: IdentityCounters;
  readonly log: Log;
  /** Called for every requested name that is not among the secrets. True when it may exist later. */
  readonly wanted?: (name: string) => boolean;
}

const LIMITS = {
  /** Only Envoy connects, and sometimes a user with a tool. */
  connections: 100,
  /** An Envoy opens one stream for each secret of each of its configuration sources. */
  streams: 1_000,
  /** gRPC's usual limit; Envoy sends all metadata of its node with the first request. */
  messageBytes: 4 * 1024 * 1024,
};
/** Limits the memory for names that peers send. */
const MAX_REPORTED_NAMES = 1_000;

const SERVICE = '/envoy.service.secret.v3.SecretDiscoveryService';

interface Open {
  readonly secrets: SecretStream;
  /** Sends the next response, if there is one. */
  push(): void;
  end(error: CtlError): void;
}

/**
 * Starts the server; resolves when it listens. Rejects with CtlError when another process listens on the path, or the
 * path is not usable.
 */
export async function startSdsServer(options: SdsServerOptions): Promise<SdsServer> {
  const { counters, log, staleIntervalMs } = options;
  const streams = new Set<Open>();
  const reportedUnknown = new Set<string>();
  let table: SecretTable | undefined;

  const unknown = (name: string): void => {
    if (options.wanted?.(name) === true) return;
    if (reportedUnknown.has(name) || reportedUnknown.size >= MAX_REPORTED_NAMES) return;
    reportedUnknown.add(name);
    log.warn('the requested secret does not exist', { name });
  };
  const serve = (variant: Variant) => (stream: ServerStream) => {
    const open = openStream(stream, variant, { table: () => table, counters, log, unknown });
    streams.add(open);
    counters.total_active_connections++;
    stream.on('close', () => {
      streams.delete(open);
      counters.total_active_connections--;
    });
  };
  const onStale = (): void => {
    counters.total_stale_connections++;
    log.warn('an SDS connection was closed: its peer does not respond');
  };
  const server = await startGrpcServer({
    address: { path: options.path },
    methods: { [`${SERVICE}/StreamSecrets`]: serve('sotw'), [`${SERVICE}/DeltaSecrets`]: serve('delta') },
    limits: LIMITS,
    ...(staleIntervalMs > 0 ? { keepalive: { intervalMs: staleIntervalMs, onStale } } : {}),
    log,
  });
  const stopEnding = endSilentStreams(streams, options);

  return {
    publish(next) {
      table = next;
      for (const open of streams) open.push();
    },
    isWanted: (name) => [...streams].some(({ secrets }) => secrets.wants(name)),
    close() {
      stopEnding();
      return server.close();
    },
  };
}

interface StreamDeps {
  readonly table: () => SecretTable | undefined;
  readonly counters: IdentityCounters;
  readonly log: Log;
  readonly unknown: (name: string) => void;
}

function openStream(stream: ServerStream, variant: Variant, deps: StreamDeps): Open {
  const { counters, log } = deps;
  const secrets = createSecretStream(variant, {
    unknown: deps.unknown,
    rejected(names, message) {
      counters.total_secret_update_failures++;
      log.error('the proxy rejects a secret', { names: names.join(','), message: message.slice(0, 500) });
    },
  });
  const end = (error: CtlError): void => {
    log.warn(`ending a stream of secrets: ${error.oneLine()}`);
    endWithError(stream, error);
  };
  const push = (): void => {
    if (stream.destroyed || stream.writableEnded) return;
    const response = secrets.next(deps.table());
    if (response === undefined) return;
    counters.total_pushes++;
    stream.write(response, (error: Error | null | undefined) => {
      if (error) counters.total_push_errors++;
    });
  };
  stream.on('data', (message: Buffer) => {
    if (stream.writableEnded) return;
    try {
      secrets.receive(message);
    } catch (error) {
      end(error instanceof CtlError ? error : new CtlError('internal', oneLineOf(error), {}, error));
      return;
    }
    push();
  });
  stream.on('end', () => stream.end());
  return { secrets, push, end };
}

/** Ends streams without a request in a whole interval. Returns the function that stops it. */
function endSilentStreams(
  streams: ReadonlySet<Open>,
  { staleIntervalMs, clock, counters }: SdsServerOptions,
): () => void {
  let silent = new Set<Open>();
  const check = (): void => {
    const unused = [...streams].filter((open) => !open.secrets.started());
    for (const open of unused) {
      if (!silent.has(open)) continue;
      counters.total_stale_connections++;
      open.end(new CtlError('failed_precondition', 'no request was received'));
    }
    silent = new Set(unused);
  };
  let timer = { cancel: (): void => undefined };
  const schedule = (): void => {
    timer = clock.setTimer(staleIntervalMs, () => {
      check();
      schedule();
    });
  };
  if (staleIntervalMs > 0) schedule();
  return () => timer.cancel();
}
