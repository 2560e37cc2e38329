/**
 * Envoy's secret discovery service (envoy.service.secret.v3.SecretDiscoveryService) on a Unix domain socket: gRPC over
 * `node:http2`, both streaming variants. New secrets are sent to every stream that subscribed to them; a stream that
 * was opened before there were any waits.
 */
import {
  createServer,
  type Http2Session,
  type Http2Stream,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import { CtlError, oneLineOf } from '../../core/errors.ts';
import { statusOf } from '../../core/grpc-status.ts';
import type { Log } from '../../core/log.ts';
import type { WallClock } from '../../core/wall-clock.ts';
import { frame, frameReader } from './grpc-frame.ts';
import type { IdentityCounters } from './metrics.ts';
import { createSecretStream, type SecretStream, type SecretTable, type Variant } from './sds-protocol.ts';
import { listenOnSocket } from './unix-socket.ts';

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

/** gRPC's usual limit; Envoy sends all metadata of its node with the first request. */
const MAX_MESSAGE_BYTES = 4 * 1024 * 1024;
/** An Envoy opens one stream for each secret of each of its configuration sources. */
const MAX_STREAMS = 1_000;
/** Only Envoy, and users with a tool, connect. */
const MAX_CONNECTIONS = 100;
/** A peer on the same machine that does not answer a ping within this time is stopped or dead. */
const PING_TIMEOUT_MS = 5_000;

/** How long a peer may keep its half of an ended stream open. */
const HALF_OPEN_MS = 1_000;

const VARIANTS: Readonly<Record<string, Variant>> = {
  '/envoy.service.secret.v3.SecretDiscoveryService/StreamSecrets': 'sotw',
  '/envoy.service.secret.v3.SecretDiscoveryService/DeltaSecrets': 'delta',
};

interface Open {
  readonly secrets: SecretStream;
  readonly session: Http2Session | undefined;
  /** Sends the next response, if there is one. */
  push(): void;
  end(error: CtlError): void;
}

/**
 * Starts the server; resolves when it listens. Rejects with CtlError when another process listens on the path, or the
 * path is not usable.
 */
export async function startSdsServer(options: SdsServerOptions): Promise<SdsServer> {
  const { counters, log } = options;
  const streams = new Map<Http2Stream, Open>();
  const sessions = new Set<ServerHttp2Session>();
  const reportedUnknown = new Set<string>();
  let table: SecretTable | undefined;

  const server = createServer({ settings: { maxConcurrentStreams: MAX_STREAMS }, maxSessionMemory: 16 });
  server.on('session', (session) => {
    if (sessions.size >= MAX_CONNECTIONS) {
      session.destroy();
      return;
    }
    sessions.add(session);
    session.on('close', () => sessions.delete(session));
    session.on('error', (error) => log.debug(`a connection to the secrets ended: ${oneLineOf(error)}`));
  });

  server.on('stream', (stream, headers) => {
    stream.on('error', (error) => log.debug(`a stream of secrets ended: ${oneLineOf(error)}`));
    const path = headers[':path'] ?? '';
    const variant = Object.hasOwn(VARIANTS, path) ? VARIANTS[path] : undefined;
    const refusal = refusalOf(headers['content-type'], path, variant, streams.size);
    if (refusal !== undefined || variant === undefined) {
      if (refusal !== undefined) refuse(stream, refusal);
      return;
    }
    const open = openStream(stream, variant, {
      table: () => table,
      clock: options.clock,
      counters,
      log,
      unknown(name) {
        if (options.wanted?.(name) === true) return;
        // Names of peers must not fill the memory.
        if (reportedUnknown.has(name) || reportedUnknown.size >= MAX_STREAMS) return;
        reportedUnknown.add(name);
        log.warn('a secret was requested that does not exist', { name });
      },
    });
    streams.set(stream, open);
    counters.total_active_connections++;
    stream.on('close', () => {
      streams.delete(stream);
      counters.total_active_connections--;
    });
  });

  const closeSocket = await listenOnSocket(server, options.path);
  server.on('error', (error) => log.error(`the server of secrets: ${oneLineOf(error)}`));
  const stopRecycling = recycleStale({ ...options, streams, sessions });

  return {
    publish(next) {
      table = next;
      for (const open of streams.values()) open.push();
    },
    isWanted: (name) => [...streams.values()].some(({ secrets }) => secrets.wants(name)),
    async close() {
      stopRecycling();
      const closed = closeSocket();
      for (const session of sessions) session.destroy();
      await closed;
    },
  };
}

function refusalOf(
  contentType: string | undefined,
  path: string,
  variant: Variant | undefined,
  open: number,
): CtlError | undefined {
  if (contentType?.startsWith('application/grpc') !== true)
    return new CtlError('invalid_argument', 'only gRPC is served');
  if (variant === undefined) return new CtlError('unimplemented', `${path.slice(0, 200)} is not served`);
  if (open >= MAX_STREAMS) return new CtlError('resource_exhausted', `more than ${MAX_STREAMS} streams`);
  return undefined;
}

/** Sends a response with only a status (gRPC "Trailers-Only"). */
function refuse(stream: ServerHttp2Stream, error: CtlError): void {
  const { code, details } = statusOf(error);
  stream.respond(
    {
      ':status': 200,
      'content-type': 'application/grpc',
      'grpc-status': String(code),
      'grpc-message': encodeURIComponent(details),
    },
    { endStream: true },
  );
}

interface StreamDeps {
  readonly table: () => SecretTable | undefined;
  readonly clock: WallClock;
  readonly counters: IdentityCounters;
  readonly log: Log;
  readonly unknown: (name: string) => void;
}

function openStream(stream: ServerHttp2Stream, variant: Variant, deps: StreamDeps): Open {
  const { clock, counters, log } = deps;
  const secrets = createSecretStream(variant, {
    unknown: deps.unknown,
    rejected(names, message) {
      counters.total_secret_update_failures++;
      log.error('the proxy rejects a secret', { names: names.join(','), message: message.slice(0, 500) });
    },
  });
  const read = frameReader(MAX_MESSAGE_BYTES);
  let status: ReturnType<typeof statusOf> = { code: 0, details: '' };

  stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
  stream.on('wantTrailers', () => {
    stream.sendTrailers({ 'grpc-status': String(status.code), 'grpc-message': encodeURIComponent(status.details) });
    // A peer that keeps its own half open must not occupy the stream; closing at once would overtake the status.
    const timer = clock.setTimer(HALF_OPEN_MS, () => stream.close());
    stream.on('close', () => timer.cancel());
  });
  const end = (error: CtlError): void => {
    status = statusOf(error);
    log.warn(`ending a stream of secrets: ${error.oneLine()}`);
    stream.end();
  };
  const push = (): void => {
    if (stream.destroyed || stream.writableEnded) return;
    const response = secrets.next(deps.table());
    if (response === undefined) return;
    counters.total_pushes++;
    stream.write(frame(response), (error) => {
      if (error) counters.total_push_errors++;
    });
  };
  stream.on('data', (chunk: Buffer) => {
    if (stream.writableEnded) return;
    try {
      for (const message of read(chunk)) secrets.receive(message);
    } catch (error) {
      end(error instanceof CtlError ? error : new CtlError('internal', oneLineOf(error), {}, error));
      return;
    }
    push();
  });
  stream.on('end', () => stream.end());
  return { secrets, session: stream.session, push, end };
}

interface RecycleOptions extends SdsServerOptions {
  readonly streams: ReadonlyMap<Http2Stream, Open>;
  readonly sessions: ReadonlySet<ServerHttp2Session>;
}

/**
 * Closes stale connections (whose peer does not answer a ping), and streams without a request in a whole interval.
 * Returns the function that stops it.
 */
function recycleStale({ staleIntervalMs, clock, counters, log, streams, sessions }: RecycleOptions): () => void {
  let silent = new Set<Open>();
  const check = (): void => {
    for (const session of sessions) {
      pinged(session, clock, () => {
        const lost = [...streams.values()].filter((open) => open.session === session).length;
        counters.total_stale_connections += Math.max(1, lost);
        log.warn('a connection to the secrets is closed: its peer does not answer', { streams: lost });
        session.destroy();
      });
    }
    const unused = [...streams.values()].filter((open) => !open.secrets.started());
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

/** Sends a ping, and calls `onSilence` when the peer does not answer in time. */
function pinged(session: ServerHttp2Session, clock: WallClock, onSilence: () => void): void {
  const timer = clock.setTimer(PING_TIMEOUT_MS, () => {
    if (!session.destroyed) onSilence();
  });
  const sent = !session.destroyed && session.ping(() => timer.cancel());
  if (!sent) timer.cancel();
}
