/**
 * The gRPC server of ctl-discovery: ADS v3 (SotW and Delta) and health, on one or several listeners.
 *
 * The sockets are ours and are handed to grpc-js, because its own `bindAsync` has no accept backlog: a thousand proxies that
 * reconnect within 50 ms would overflow Node's 511 and wait a second for their SYN to be sent again.
 */
import { createServer, type Server as NetServer, type Socket } from 'node:net';
import {
  type ConnectionInjector,
  Server,
  ServerCredentials,
  type ServerInterceptingCall,
  type ServerInterceptor,
  status,
} from '@grpc/grpc-js';
import { CtlError } from '../core/errors.ts';
import { statusOf } from '../core/grpc-status.ts';
import { ConnectionLimits } from '../grpc/connection-limits.ts';
import type { ConnectionStatus, PushEngine } from '../push/types.ts';
import type { Caller, GrpcService } from '../security/types.ts';
import { Admission, MAX_ENTERING } from './admission.ts';
import { DELTA_LISTS, decodeDeltaRequest, decodeSotwRequest, SOTW_LISTS } from './codec.ts';
import { DELTA } from './delta.ts';
import { Health } from './health.ts';
import type { ListFields } from './message-assembly.ts';
import type { XdsObserver } from './observer.ts';
import { RequestLimits, type RequestLimitsOptions } from './request-limits.ts';
import { ADS_METHODS, ADS_METHODS_V2, ADS_SERVICE, HEALTH_METHODS } from './services.ts';
import { SOTW } from './sotw.ts';
import { AdsStream, type AnyRequest, type StreamDeps } from './stream.ts';
import { type AdsCall, createTransport, retireConnectionOf } from './transport.ts';

export interface XdsListener {
  /** Address to bind; undefined: all. */
  readonly host?: string | undefined;
  /** 0: any free port; see `ports()`. */
  readonly port: number;
  /** Plain text when left out. Credentials that are renewed count for the connections that come then. */
  readonly credentials?: ServerCredentials;
}

export interface XdsServerOptions {
  readonly engine: PushEngine;
  readonly observer: XdsObserver;
  readonly listeners: readonly XdsListener[];
  /** Largest request, bytes (MESH_GPRC_MAXRECVMSGSIZE). */
  readonly maxReceiveBytes: number;
  /** Streams of one connection, and ADS streams of the server (MESH_GPRC_MAXSTREAMS). */
  readonly maxStreams: number;
  /** Idle time before a ping, and wait for its answer, ms. */
  readonly keepaliveIntervalMs: number;
  readonly keepaliveTimeoutMs: number;
  /** Age at which a proxy is asked to connect anew, ms, ± 10 %; Infinity: never. */
  readonly maxConnectionAgeMs: number;
  /** A stream whose socket takes nothing for so long, ms, is closed. */
  readonly sendTimeoutMs?: number;
  /** A connection without any stream for this long, ms, is closed. */
  readonly idleMs?: number;
  /** Connections of all listeners together, of which no single address gets all; left out: no limit. */
  readonly maxConnections?: number;
  /** Of unary requests while they come in. */
  readonly requestLimits?: RequestLimitsOptions;
  /** Streams waiting to be let in. */
  readonly maxEntering?: number;
  /** False: read and write through grpc-js, with a copy per stream, also where it can be done without. */
  readonly direct?: boolean;
  /**
   * Whose a stream is, found out before anything of it is read; undefined on a connection that nobody has to be known on. Rejects with
   * CtlError unauthenticated or unavailable. Left out: nobody is asked.
   */
  readonly authenticate?: (call: AdsCall) => Promise<Caller | undefined>;
  /** More services on the same listeners; they see to it themselves who may call them. */
  readonly services?: readonly GrpcService[];
  readonly clock?: { wall(): number; monotonic(): number };
  /** 0 ≤ x < 1; spreads connection ages. */
  readonly random?: () => number;
}

/** Waiting connections per listener; see the head of this file. The kernel caps it at net.core.somaxconn. */
const ACCEPT_BACKLOG = 4096;

/** No progress on a socket for this long means that nobody reads at the other end. */
const SEND_TIMEOUT_MS = 5000;

/** A connection without any stream for this long is closed: nobody asks those who hold it who they are. Proxies have a stream. */
const IDLE_MS = 60_000;

/** A request of the health service is the name of a service. */
const MAX_HEALTH_BYTES = 1024;

/** Longest delay of a timer. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Part of the maximum age by which connections are spread to both sides. */
const AGE_JITTER = 0.1;

const EXPIRED = 'the credential of this stream has expired, connect anew';

function stopping(): CtlError {
  return new CtlError('unavailable', 'the server is shutting down');
}

/** Runs at a moment of the wall clock, which may be further away than a timer can wait; undefined: never. */
function at(moment: number | undefined, now: () => number, run: () => void): { cancel(): void } {
  let timer: NodeJS.Timeout | undefined;
  const wait = (): void => {
    if (moment === undefined) return;
    const left = moment - now();
    timer = setTimeout(left <= 0 ? run : wait, Math.min(Math.max(left, 0), MAX_TIMER_MS)).unref();
  };
  wait();
  return { cancel: () => clearTimeout(timer) };
}

/** What tells the two protocols apart. */
interface StreamKind<Request extends AnyRequest> extends Pick<StreamDeps<Request>, 'protocol' | 'decode'> {
  /** Lists to look for in requests. */
  readonly lists: ListFields;
}

type AnyStream = Pick<AdsStream<never>, 'drain' | 'close' | 'status' | 'node'>;

/** A running server. */
export class XdsServer {
  readonly #options: XdsServerOptions;
  readonly #server: Server;
  readonly #health = new Health([ADS_SERVICE]);
  readonly #admission: Admission;
  readonly #streams = new Set<AnyStream>();
  readonly #sockets = new Set<Socket>();
  readonly #listening: NetServer[] = [];
  readonly #injectors: ConnectionInjector[] = [];
  readonly #limits: RequestLimits;
  readonly #connections: ConnectionLimits;
  #authenticating = 0;
  #draining = false;

  constructor(options: XdsServerOptions) {
    this.#options = options;
    this.#admission = new Admission(options.maxEntering ?? MAX_ENTERING);
    this.#limits = new RequestLimits(options.requestLimits);
    this.#connections = new ConnectionLimits(options.maxConnections ?? Number.POSITIVE_INFINITY);
    this.#server = new Server({
      'grpc.max_receive_message_length': options.maxReceiveBytes,
      'grpc.max_send_message_length': -1,
      'grpc.max_concurrent_streams': options.maxStreams,
      'grpc.keepalive_time_ms': Math.min(options.keepaliveIntervalMs, MAX_TIMER_MS),
      'grpc.keepalive_timeout_ms': Math.min(options.keepaliveTimeoutMs, MAX_TIMER_MS),
      'grpc.max_connection_idle_ms': options.idleMs ?? IDLE_MS,
      // Bookkeeping per stream and message that nothing here reads.
      'grpc.enable_channelz': 0,
      interceptors: [this.#watchLimits],
    });
    this.#server.addService(ADS_METHODS, {
      StreamAggregatedResources: (call: AdsCall) =>
        this.#accept(call, { protocol: SOTW, decode: decodeSotwRequest, lists: SOTW_LISTS }),
      DeltaAggregatedResources: (call: AdsCall) =>
        this.#accept(call, { protocol: DELTA, decode: decodeDeltaRequest, lists: DELTA_LISTS }),
    });
    const refuseV2 = (call: AdsCall): void => {
      const error = new CtlError(
        'unimplemented',
        'xDS v2 is not served: set transport_api_version and resource_api_version to V3',
      );
      options.observer.refused(call.getPeer(), error);
      call.emit('error', statusOf(error));
    };
    this.#server.addService(ADS_METHODS_V2, {
      StreamAggregatedResources: refuseV2,
      DeltaAggregatedResources: refuseV2,
    });
    for (const { methods, handlers, maxReceiveBytes } of options.services ?? []) {
      const guarded = Object.entries(handlers).map(([name, handler]) => {
        const path = methods[name]?.path;
        return [name, path === undefined ? handler : this.#limits.guard(path, maxReceiveBytes, handler)] as const;
      });
      this.#server.addService(methods, Object.fromEntries(guarded));
    }
    const { Check, Watch } = HEALTH_METHODS;
    this.#server.addService(HEALTH_METHODS, {
      Check: this.#limits.guard(Check.path, MAX_HEALTH_BYTES, this.#health.check),
      Watch: this.#limits.guard(Watch.path, MAX_HEALTH_BYTES, this.#health.watch),
    });
  }

  /** grpc-js ends a stream whose message is over the limit by itself; seen here, so that it does not happen in silence. */
  readonly #watchLimits: ServerInterceptor = (method, call) => {
    const sendStatus = call.sendStatus.bind(call);
    call.sendStatus = (sent) => {
      if (sent.code === status.RESOURCE_EXHAUSTED && /larger than/.test(sent.details ?? ''))
        this.#options.observer.requestTooLarge(call.getPeer(), sent.details ?? '');
      sendStatus(sent);
    };
    this.#limits.begin(method.path, call);
    // The type asks for a wrapper; the call itself has all that is used of it.
    return call as ServerInterceptingCall;
  };

  /** Binds all listeners. Rejects with CtlError unavailable when one cannot be bound; then none is left open. */
  async start(): Promise<void> {
    try {
      for (const listener of this.#options.listeners) await this.#listen(listener);
    } catch (error) {
      await this.close({ drainMs: 0 });
      throw error;
    }
  }

  #listen({ host, port, credentials }: XdsListener): Promise<void> {
    const injector = this.#server.createConnectionInjector(credentials ?? ServerCredentials.createInsecure());
    this.#injectors.push(injector);
    const server = createServer({ noDelay: true }, (socket) => {
      const address = socket.remoteAddress ?? '';
      const leave = this.#connections.enter(address);
      if (leave === undefined) {
        const message = 'too many connections of this address, or in all (see the limit of open files)';
        this.#options.observer.refused(`${address}:${socket.remotePort}`, new CtlError('resource_exhausted', message));
        socket.destroy();
        return;
      }
      this.#sockets.add(socket);
      socket.once('close', () => {
        this.#sockets.delete(socket);
        leave();
      });
      injector.injectConnection(socket);
    });
    this.#listening.push(server);
    return new Promise((resolve, reject) => {
      server.once('error', (error) =>
        reject(new CtlError('unavailable', `cannot listen on ${host ?? ''}:${port}: ${error.message}`, {}, error)),
      );
      server.listen({ port, backlog: ACCEPT_BACKLOG, ...(host === undefined ? {} : { host }) }, () => resolve());
    });
  }

  /** Bound port of each listener, in order. */
  ports(): number[] {
    return this.#listening.map((server) => {
      const address = server.address();
      return typeof address === 'object' && address !== null ? address.port : 0;
    });
  }

  /** What the health service answers; false until said otherwise. */
  setServing(serving: boolean): void {
    this.#health.setServing(serving && !this.#draining);
  }

  /** Live streams whose node was accepted. */
  connections(): ConnectionStatus[] {
    return [...this.#streams].flatMap((stream) => stream.status() ?? []);
  }

  #accept<Request extends AnyRequest>(call: AdsCall, kind: StreamKind<Request>): void {
    const { authenticate } = this.#options;
    const refuse = (error: CtlError): void => {
      this.#options.observer.refused(call.getPeer(), error);
      call.emit('error', statusOf(error));
    };
    const refusal = this.#refusal();
    if (refusal !== undefined) {
      refuse(refusal);
      return;
    }
    if (authenticate === undefined) {
      this.#open(call, undefined, kind);
      return;
    }
    // Nothing is read meanwhile: what the peer has sent waits in the stream's flow-control window.
    this.#authenticating++;
    authenticate(call)
      .finally(() => this.#authenticating--)
      .then((caller) => {
        // It may have gone, or the server may be shutting down by now.
        if (call.cancelled) return;
        const late = this.#refusal();
        if (late === undefined) this.#open(call, caller, kind);
        else refuse(late);
      })
      .catch((error: unknown) => {
        if (error instanceof CtlError && error.code !== 'internal') {
          refuse(error);
          // What the handshake proved stays as it is: a client with a certificate that has ended would try on it for ever.
          if (error.code === 'unauthenticated') retireConnectionOf(call);
        } else {
          this.#options.observer.internalError(error, call.getPeer());
          call.emit('error', statusOf(new CtlError('internal', 'internal error')));
        }
      });
  }

  /** Why no stream can be taken now. */
  #refusal(): CtlError | undefined {
    const { maxStreams } = this.#options;
    if (this.#draining) return stopping();
    return this.#streams.size + this.#authenticating >= maxStreams
      ? new CtlError('resource_exhausted', `more than ${maxStreams} proxies`)
      : undefined;
  }

  #open<Request extends AnyRequest>(
    call: AdsCall,
    caller: Caller | undefined,
    { protocol, decode, lists }: StreamKind<Request>,
  ): void {
    const { engine, clock = { wall: () => Date.now(), monotonic: () => performance.now() } } = this.#options;
    const transport = createTransport(call, {
      sendTimeoutMs: this.#options.sendTimeoutMs ?? SEND_TIMEOUT_MS,
      maxReceiveBytes: this.#options.maxReceiveBytes,
      direct: this.#options.direct ?? true,
    });
    const stream = new AdsStream<Request>({
      transport,
      protocol,
      decode,
      engine,
      admission: this.#admission,
      caller,
      observer: this.#options.observer,
      clock,
      closed: (ended) => {
        clearTimeout(age);
        expiry.cancel();
        this.#streams.delete(ended);
      },
    });
    this.#streams.add(stream);
    const age = this.#age(() => {
      transport.retireConnection();
      void stream.drain(new CtlError('unavailable', 'the connection has reached its maximum age, connect anew'));
    });
    const expiry = at(caller?.expiresAt, clock.wall, () => {
      // A certificate is the connection's: the next stream needs a new one.
      if (caller?.by === 'certificate') transport.retireConnection();
      void stream.drain(new CtlError('unauthenticated', EXPIRED));
    });
    transport.read(lists, {
      message: (bytes, known) => stream.receive(bytes, known),
      refused: (error) => transport.fail(error),
      ended: () => {
        transport.end();
        stream.close();
      },
    });
    call.once('cancelled', () => stream.close());
    call.once('close', () => stream.close());
  }

  #age(retire: () => void): NodeJS.Timeout | undefined {
    const random = this.#options.random ?? Math.random;
    const age = this.#options.maxConnectionAgeMs * (1 + AGE_JITTER * (2 * random() - 1));
    return age > MAX_TIMER_MS ? undefined : setTimeout(retire, age).unref();
  }

  /**
   * Graceful end: no new connections or streams, what is being written goes out, every stream is ended with UNAVAILABLE so that
   * proxies look for another replica. What is not done after `drainMs` is torn down. Proxies keep their configuration.
   */
  async close({ drainMs }: { readonly drainMs: number }): Promise<void> {
    this.#draining = true;
    this.#health.close();
    const closed = this.#listening.map((server) => new Promise<void>((resolve) => server.close(() => resolve())));
    const deadline = new Promise<void>((resolve) => setTimeout(resolve, drainMs).unref());
    const graceful = async (): Promise<void> => {
      await Promise.all([...this.#streams].map((stream) => stream.drain(stopping())));
      // Sends GOAWAY on all connections; they close when their last stream has ended. Its callback is not to be waited for: it
      // takes a connection that is closing for closed.
      this.#server.tryShutdown(() => {});
      await Promise.all(closed);
    };
    await Promise.race([graceful(), deadline]);
    for (const stream of [...this.#streams]) stream.close();
    this.#server.forceShutdown();
    for (const injector of this.#injectors) injector.destroy();
    for (const socket of this.#sockets) socket.destroy();
  }
}

/** Makes a server; `start()` binds it. */
export function createXdsServer(options: XdsServerOptions): XdsServer {
  return new XdsServer(options);
}
