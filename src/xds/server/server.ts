/** The xDS server of ctl-discovery: ADS v3 (SotW and Delta) and health over gRPC, on one or several listeners. */

import { CtlError } from '../../core/errors.ts';
import { Memos } from '../../core/memo.ts';
import { CREDENTIAL_ENDED } from '../../core/stream-end.ts';
import type { XdsType } from '../../generate/types.ts';
import {
  createGrpcServer,
  type GrpcListener,
  type GrpcServer,
  type GrpcService,
  PerAddressLimiter,
  type StreamCall,
  type StreamHandler,
} from '../../grpc/index.ts';
import type { ConnectionStatus, PushEngine } from '../../push/types.ts';
import type { Caller } from '../../security/types.ts';
import { type AnyRequest, DeltaProtocol, SharedResults, SotwProtocol, type Variant } from '../protocol/index.ts';
import { ReceiveMemoryQuota, type RequestFormat, RequestFormats } from '../request/index.ts';
import { Admission, MAX_ENTERING } from './admission.ts';
import { Health } from './health.ts';
import type { XdsObserver } from './observer.ts';
import { RecentFrames } from './recent-frames.ts';
import { ADS_PATHS, ADS_PATHS_V2, ADS_SERVICE } from './services.ts';
import { SmallWrites } from './small-writes.ts';
import { AdsStream } from './stream.ts';
import { createTransport, type ReadingTransport } from './transport.ts';

export interface XdsServerOptions {
  readonly engine: PushEngine;
  readonly observer: XdsObserver;
  readonly listeners: readonly GrpcListener[];
  /** Largest request, bytes (MESH_GPRC_MAXRECVMSGSIZE). */
  readonly maxReceiveBytes: number;
  /**
   * ADS streams of the server, of which no single address gets all (MESH_GPRC_MAXSTREAMS). One connection has no more,
   * and no more than {@link MAX_CONNECTION_STREAMS}.
   */
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
  /** A unary request that has not come whole after this long, ms, is refused. */
  readonly requestTimeoutMs?: number;
  /** Unary requests of one connection that have not come whole. */
  readonly maxIncomplete?: number;
  /** An ADS stream whose first request has not come whole after this long, ms, is ended. */
  readonly firstRequestMs?: number;
  /** Streams waiting to be let in, of which no single address gets all. */
  readonly maxEntering?: number;
  /**
   * Whose a stream is, found out before anything of it is read; undefined on a connection that nobody has to be known
   * on. Rejects with CtlError unauthenticated or unavailable. Left out: nobody is asked.
   */
  readonly authenticate?: (call: StreamCall) => Promise<Caller | undefined>;
  /** More services on the same listeners; they see to it themselves who may call them. */
  readonly services?: readonly GrpcService[];
  /** Remember what streams share; left out: the server's own. */
  readonly memos?: Memos;
  readonly clock?: { wall(): number; monotonic(): number };
  /** 0 ≤ x < 1; spreads connection ages. */
  readonly random?: () => number;
}

/** No progress on a socket for this long means that nobody reads at the other end. */
const SEND_TIMEOUT_MS = 5000;

/**
 * Streams of one connection: what one frame of a client can concern. A proxy has one, a client of several services a
 * few, and who brings many proxies together opens another connection when he learns this limit
 * (SETTINGS_MAX_CONCURRENT_STREAMS).
 */
const MAX_CONNECTION_STREAMS = 1000;

/**
 * A connection without any stream for this long is closed: nobody asks those who hold it who they are. Proxies have a
 * stream.
 */
const IDLE_MS = 60_000;

/** A unary request is a few kilobytes, sent in one go. */
const REQUEST_TIMEOUT_MS = 10_000;

/**
 * A proxy asks as soon as it has a stream. Who does not would hold for nothing what is counted for proxies, maybe
 * unknown who it is.
 */
const FIRST_REQUEST_MS = 30_000;

/** Whoever sends many requests sends each whole, so that few are under way at once. */
const MAX_INCOMPLETE = 256;

/** Longest delay of a timer. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Part of the maximum age by which connections are spread to both sides. */
const AGE_JITTER = 0.1;

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

/** One of the two ADS methods: a variant of the protocol, and how its requests are read. */
interface AdsMethod<Request extends AnyRequest> {
  readonly protocol: Variant<Request>;
  readonly format: RequestFormat<Request>;
}

type AnyStream = Pick<AdsStream<never>, 'drain' | 'close' | 'status' | 'countQuarantined' | 'node'>;

/** A running server. */
export class XdsServer {
  readonly #options: XdsServerOptions;
  readonly #server: GrpcServer;
  readonly #health: Health;
  readonly #admission: Admission;
  readonly #streams = new Set<AnyStream>();
  /** For ADS streams, also while their callers are asked for. */
  readonly #places: PerAddressLimiter;
  readonly #quota: ReceiveMemoryQuota;
  readonly #shared: SharedResults;
  readonly #requests: RequestFormats;
  readonly #frames: RecentFrames;
  readonly #smallWrites = new SmallWrites();
  #draining = false;

  constructor(options: XdsServerOptions) {
    const requestTimeoutMs = options.requestTimeoutMs ?? REQUEST_TIMEOUT_MS;
    this.#options = options;
    this.#admission = new Admission(options.maxEntering ?? MAX_ENTERING);
    const memos = options.memos ?? new Memos();
    this.#shared = new SharedResults(memos);
    this.#requests = new RequestFormats(this.#shared.names, memos);
    this.#frames = new RecentFrames(memos.enabled);
    this.#quota = new ReceiveMemoryQuota({ maxRequestBytes: options.maxReceiveBytes });
    this.#places = new PerAddressLimiter(options.maxStreams);
    this.#health = new Health({
      services: [ADS_SERVICE],
      requestTimeoutMs,
      refused: (peer, error) => options.observer.refused(peer, error),
    });
    this.#server = createGrpcServer({
      listeners: options.listeners,
      services: [this.#ads(), this.#health.service(), ...(options.services ?? [])],
      observer: options.observer,
      maxStreams: Math.min(options.maxStreams, MAX_CONNECTION_STREAMS),
      maxConnections: options.maxConnections ?? Number.POSITIVE_INFINITY,
      keepaliveIntervalMs: options.keepaliveIntervalMs,
      keepaliveTimeoutMs: options.keepaliveTimeoutMs,
      idleMs: options.idleMs ?? IDLE_MS,
      sendTimeoutMs: options.sendTimeoutMs ?? SEND_TIMEOUT_MS,
      requestTimeoutMs,
      maxIncomplete: options.maxIncomplete ?? MAX_INCOMPLETE,
    });
  }

  #ads(): GrpcService {
    const sotw = { protocol: new SotwProtocol(this.#shared), format: this.#requests.sotw };
    const delta = { protocol: new DeltaProtocol(this.#shared), format: this.#requests.delta };
    const refuseV2: StreamHandler = (call) => {
      const message = 'xDS v2 is not served: set transport_api_version and resource_api_version to V3';
      this.#refuse(call, new CtlError('unimplemented', message));
    };
    return {
      streams: {
        [ADS_PATHS.sotw]: (call) => this.#accept(call, sotw),
        [ADS_PATHS.delta]: (call) => this.#accept(call, delta),
        [ADS_PATHS_V2.sotw]: refuseV2,
        [ADS_PATHS_V2.delta]: refuseV2,
      },
    };
  }

  /** Binds all listeners. Rejects with CtlError unavailable when one cannot be bound; then none is left open. */
  start(): Promise<void> {
    return this.#server.start();
  }

  /** Bound port of each listener, in order. */
  ports(): number[] {
    return this.#server.ports();
  }

  /** What the health service answers; false until said otherwise. */
  setServing(serving: boolean): void {
    this.#health.setServing(serving && !this.#draining);
  }

  /** Live streams whose node was accepted. */
  connections(): ConnectionStatus[] {
    return [...this.#streams].flatMap((stream) => stream.status() ?? []);
  }

  /**
   * How many resources are kept back from proxies that rejected them, by type. Metrics ask for it at every scrape: with
   * thousands of streams, their whole status would be tens of megabytes of garbage each time.
   */
  quarantined(): Readonly<Record<XdsType, number>> {
    const counts = { cds: 0, eds: 0, sds: 0, lds: 0, rds: 0, vhds: 0 };
    for (const stream of this.#streams) stream.countQuarantined(counts);
    return counts;
  }

  #refuse(call: StreamCall, error: CtlError): void {
    this.#options.observer.refused(call.connection.peer, error);
    call.end(error);
  }

  #accept<Request extends AnyRequest>(call: StreamCall, method: AdsMethod<Request>): void {
    const { authenticate, maxStreams, observer } = this.#options;
    if (this.#draining) {
      this.#refuse(call, stopping());
      return;
    }
    const leave = this.#places.enter(call.connection.address);
    if (leave === undefined) {
      const message = `more than ${maxStreams} proxies, or too many of this address`;
      this.#refuse(call, new CtlError('resource_exhausted', message));
      return;
    }
    if (authenticate === undefined) {
      call.onClose(leave);
      this.#open(call, undefined, method);
      return;
    }
    // Nothing is read meanwhile: what the peer has sent waits in the stream's flow-control window.
    authenticate(call)
      // Whoever gives up sooner keeps his place until then, for asking costs as much.
      .finally(() => call.onClose(leave))
      .then((caller) => {
        // It may have gone, or the server may be shutting down by now.
        if (call.closed) return;
        if (this.#draining) this.#refuse(call, stopping());
        else this.#open(call, caller, method);
      })
      .catch((error: unknown) => {
        if (error instanceof CtlError && error.code !== 'internal') {
          this.#refuse(call, error);
          // What the handshake proved stays as it is: a client with a certificate that has ended would try on it for
          // ever.
          if (error.code === 'unauthenticated') call.retireConnection();
        } else {
          observer.internalError(error, call.connection.peer);
          call.end(new CtlError('internal', 'internal error'));
        }
      });
  }

  #open<Request extends AnyRequest>(call: StreamCall, caller: Caller | undefined, method: AdsMethod<Request>): void {
    const { engine, observer, clock = { wall: () => Date.now(), monotonic: () => performance.now() } } = this.#options;
    const transport = createTransport(call, {
      maxReceiveBytes: this.#options.maxReceiveBytes,
      quota: this.#quota.of(call.connection.address),
    });
    const stream = new AdsStream<Request>({
      transport,
      protocol: method.protocol,
      frames: this.#frames,
      smallWrites: this.#smallWrites,
      engine,
      admission: this.#admission.of(call.connection.address),
      caller,
      observer,
      clock,
      closed: (ended) => {
        clearTimeout(age);
        heard();
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
      // Not `unauthenticated`: this is no refusal, and Envoy warns of those. The next stream is judged by what it
      // shows.
      void stream.drain(new CtlError('unavailable', CREDENTIAL_ENDED));
    });
    const heard = this.#unlessHeard(transport, () => {
      this.#refuse(call, new CtlError('deadline_exceeded', 'no request has come on this stream'));
      stream.close();
    });
    transport.read(method.format, {
      message: (request) => {
        heard();
        stream.receive(request);
      },
      refused: (error) => {
        if (!(error instanceof CtlError) || error.code !== 'resource_exhausted') {
          stream.fail(error);
          return;
        }
        observer.requestTooLarge(transport.peer, error.message);
        transport.fail(error);
        stream.close();
      },
      ended: () => {
        transport.end();
        stream.close();
      },
    });
    call.onClose(() => stream.close());
  }

  /**
   * Runs `end` when no first request comes, unless it is we who have it wait.
   * @returns what to call when one has come, or none is waited for any more
   */
  #unlessHeard(transport: ReadingTransport, end: () => void): () => void {
    let [heard, timer]: [boolean, NodeJS.Timeout | undefined] = [false, undefined];
    const judge = (): void => {
      if (heard) return;
      if (transport.waitsForQuota) wait();
      else end();
    };
    const wait = (): void => {
      // What has come while this process was busy is read first.
      timer = setTimeout(() => setImmediate(judge), this.#options.firstRequestMs ?? FIRST_REQUEST_MS).unref();
    };
    wait();
    return () => {
      heard = true;
      clearTimeout(timer);
    };
  }

  #age(retire: () => void): NodeJS.Timeout | undefined {
    const random = this.#options.random ?? Math.random;
    const age = this.#options.maxConnectionAgeMs * (1 + AGE_JITTER * (2 * random() - 1));
    return age > MAX_TIMER_MS ? undefined : setTimeout(retire, age).unref();
  }

  /**
   * Graceful end: no new connections or streams, what is being written goes out, every stream is ended with UNAVAILABLE
   * so that proxies look for another replica. What is not done after `drainMs` is torn down. Proxies keep their
   * configuration.
   */
  async close({ drainMs }: { readonly drainMs: number }): Promise<void> {
    this.#draining = true;
    this.#health.close();
    const deadline = new Promise<void>((resolve) => setTimeout(resolve, drainMs).unref());
    const streams = [...this.#streams].map((stream) => stream.drain(stopping()));
    await Promise.race([Promise.all([this.#server.drain(), ...streams]), deadline]);
    for (const stream of [...this.#streams]) stream.close();
    this.#server.destroy();
  }
}

/** Makes a server; `start()` binds it. */
export function createXdsServer(options: XdsServerOptions): XdsServer {
  return new XdsServer(options);
}
