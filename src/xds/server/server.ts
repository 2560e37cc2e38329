/** The xDS server of ctl-discovery: ADS v3 (SotW and Delta) and health over gRPC, on one or more listeners. */

import { setTimeout as delay } from 'node:timers/promises';
import { systemClock } from '../../core/clock.ts';
import { CtlError } from '../../core/errors.ts';
import { Memos } from '../../core/memo.ts';
import { CREDENTIAL_ENDED } from '../../core/stream-end.ts';
import { byXdsType, type XdsType } from '../../core/xds-types.ts';
import {
  createGrpcServer,
  type GrpcServer,
  type GrpcService,
  PerAddressLimiter,
  type StreamCall,
  type StreamHandler,
} from '../../grpc/index.ts';
import type { ConnectionStatus } from '../../push/index.ts';
import type { Caller } from '../../security/index.ts';
import { Demand, type LearnedHosts, SharedDemand, type StreamDemand } from '../on-demand/index.ts';
import { type AnyRequest, DeltaProtocol, SharedResults, SotwProtocol, type Variant } from '../protocol/index.ts';
import { ReceiveMemoryQuota, type RequestFormat, RequestFormats } from '../request/index.ts';
import { ResponseFrames } from './compression/stream-frames.ts';
import { DemandOfStreams } from './demand/demand-of-streams.ts';
import { awaitFirstRequest } from './first-request.ts';
import { byFirstRequest } from './first-type.ts';
import { Health } from './health.ts';
import { Admission, MAX_ENTERING } from './limits/admission.ts';
import { callerKey } from './limits/caller-key.ts';
import { CallerLimits } from './limits/caller-limits.ts';
import { UnsentBytes } from './limits/unsent-bytes.ts';
import {
  IDLE_MS,
  MAX_CONNECTION_STREAMS,
  MAX_INCOMPLETE,
  REQUEST_TIMEOUT_MS,
  SEND_TIMEOUT_MS,
  type XdsServerOptions,
} from './server-options.ts';
import { ADS_PATHS, ADS_PATHS_V2, ADS_SERVICE } from './services.ts';
import { AdsStream } from './stream.ts';
import { at, MAX_TIMER_MS } from './timers.ts';
import { createTransport } from './transport.ts';

/** The fraction by which the maximum age of connections varies. */
const AGE_JITTER = 0.1;

/** The part of the time to drain in which streams are ended; the rest is for their last writes. */
const DRAIN_SHARE = 0.8;

/** Interval between two steps of ending streams, ms. Few streams have one step each, many streams share steps. */
const DRAIN_STEP_MS = 10;

function stopping(): CtlError {
  return new CtlError('unavailable', 'the server is shutting down');
}

/** One of the two ADS methods: a variant of the protocol, and how its requests are read. */
interface AdsMethod<Request extends AnyRequest> {
  readonly protocol: Variant<Request>;
  readonly format: RequestFormat<Request>;
  /** What a new stream asks for; absent: nothing. */
  readonly demand?: () => StreamDemand<Request>;
}

type AnyStream = Pick<
  AdsStream<never>,
  'retire' | 'close' | 'status' | 'countQuarantined' | 'node' | 'held' | 'connectionId' | 'demandCount'
>;

/** A running server. */
export class XdsServer {
  readonly #options: XdsServerOptions;
  readonly #server: GrpcServer;
  readonly #health: Health;
  readonly #admission: Admission;
  readonly #streams = new Set<AnyStream>();
  readonly onDemand = new DemandOfStreams(this.#streams);
  /** Of ADS streams, even while they are authenticated. */
  readonly #limiter: PerAddressLimiter;
  readonly #quota: ReceiveMemoryQuota;
  readonly #shared: SharedResults;
  readonly #demand: SharedDemand;
  readonly #requests: RequestFormats;
  readonly #frames: ResponseFrames;
  readonly #limits: CallerLimits;
  #draining = false;

  constructor(options: XdsServerOptions) {
    const requestTimeoutMs = options.requestTimeoutMs ?? REQUEST_TIMEOUT_MS;
    this.#options = options;
    this.#admission = new Admission(options.maxEntering ?? MAX_ENTERING, options.shares);
    const memos = options.memos ?? new Memos();
    this.#shared = new SharedResults(memos);
    const now = options.clock?.monotonic ?? systemClock.now;
    this.#demand = new SharedDemand(this.#shared.names, memos, { ...systemClock, now });
    this.#requests = new RequestFormats(this.#shared.names, memos);
    this.#frames = new ResponseFrames(memos.enabled, options.compression === true);
    this.#limits = new CallerLimits(new UnsentBytes({ shares: options.shares }));
    this.#quota = new ReceiveMemoryQuota({ maxRequestBytes: options.maxReceiveBytes });
    this.#limiter = new PerAddressLimiter(options.maxStreams);
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
      shares: options.shares,
    });
  }

  #ads(): GrpcService {
    const sotw = { protocol: new SotwProtocol(this.#shared), format: this.#requests.sotw };
    const demand = () => new Demand(this.#demand, (event) => this.#options.observer.asked(event));
    const delta = { protocol: new DeltaProtocol(this.#shared), format: this.#requests.delta, demand };
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

  /**
   * Binds all listeners. Rejects with CtlError unavailable if one cannot be bound, without leaving any listener open.
   */
  start(): Promise<void> {
    return this.#server.start();
  }

  /** Bound port of each listener, in order. */
  ports(): number[] {
    return this.#server.ports();
  }

  /** Sets the status of the health service, which is false at first. */
  setServing(serving: boolean): void {
    this.#health.setServing(serving && !this.#draining);
  }

  /** What proxies have asked for, and others get before they ask. */
  get learnedHosts(): LearnedHosts {
    return this.#demand.learned;
  }

  /** Open streams whose node was accepted. */
  connections(): ConnectionStatus[] {
    return [...this.statuses()];
  }

  /** The same one by one: the status of thousands of streams is tens of megabytes. */
  *statuses(): Generator<ConnectionStatus> {
    for (const stream of this.#streams) yield* [stream.status()].filter((status) => status !== undefined);
  }

  /** The number of quarantined resources of all proxies, by type; read at every scrape of metrics. */
  quarantined(): Readonly<Record<XdsType, number>> {
    const counts = byXdsType(() => 0);
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
    const leave = this.#limiter.enter(call.connection.address);
    if (leave === undefined) {
      const message = `more than ${maxStreams} streams, or too many from this address`;
      this.#refuse(call, new CtlError('resource_exhausted', message));
      return;
    }
    if (authenticate === undefined) {
      call.onClose(leave);
      this.#open(call, undefined, method);
      return;
    }
    // Meanwhile, nothing is read: data of the client waits in the stream's flow-control window.
    authenticate(call)
      // A stream that ends sooner is counted until then, because its authentication continues.
      .finally(() => call.onClose(leave))
      .then((caller) => {
        // The stream may have ended, or the server begun to shut down.
        if (call.closed) return;
        if (this.#draining) this.#refuse(call, stopping());
        else this.#open(call, caller, method);
      })
      .catch((error: unknown) => {
        if (error instanceof CtlError && error.code !== 'internal') {
          this.#refuse(call, error);
          // The connection keeps its certificate: a client whose certificate has expired would retry on it forever.
          if (error.code === 'unauthenticated') call.retireConnection();
        } else {
          observer.internalError(error, call.connection.peer);
          call.end(new CtlError('internal', 'internal error'));
        }
      });
  }

  #open<Request extends AnyRequest>(call: StreamCall, caller: Caller | undefined, method: AdsMethod<Request>): void {
    const { engine, observer, clock = { wall: () => Date.now(), monotonic: () => performance.now() } } = this.#options;
    const limits = { maxReceiveBytes: this.#options.maxReceiveBytes, quota: this.#quota.of(call.connection.address) };
    const key = callerKey(caller, call.connection.peer);
    const frames = this.#frames.of(call.metadata, key);
    const transport = createTransport(call, { ...limits, encoding: frames.encoding });
    call.isOf(key);
    const stream = new AdsStream<Request>({
      transport,
      protocol: method.protocol,
      demand: method.demand?.(),
      extensions: this.#requests.extensions,
      frames,
      limits: this.#limits,
      engine,
      admission: this.#admission.of(call.connection.address, key),
      caller,
      callerKey: key,
      podOf: this.#options.podOf,
      ownCluster: this.#options.ownCluster,
      workloadConnected: this.#options.workloadConnected,
      observer,
      clock,
      closed: (ended) => {
        clearTimeout(age);
        cancelFirst();
        expiry.cancel();
        this.#streams.delete(ended);
      },
    });
    this.#streams.add(stream);
    const age = this.#age(() => {
      void stream.retire(new CtlError('unavailable', 'the connection has reached its maximum age: reconnect'));
    });
    const expiry = at(caller?.expiresAt, clock.wall, () => {
      // The connection keeps its certificate: the next stream needs another connection.
      if (caller?.by === 'certificate') transport.retireConnection();
      // Not `unauthenticated`: Envoy logs that as a warning. The next stream is authenticated by its own credential.
      void stream.drain(new CtlError('unavailable', CREDENTIAL_ENDED));
    });
    const cancelFirst = awaitFirstRequest(transport, this.#options.firstRequestMs, () => {
      this.#refuse(call, new CtlError('deadline_exceeded', 'no request was received on this stream'));
      stream.close();
    });
    const { debugPages: pages, config: serving } = this.#options;
    const fail = (error: unknown): void => stream.fail(error);
    const { address } = call.connection;
    const others = { transport, mode: method.protocol.mode, address, caller, pages, serving, fail };
    const requests = byFirstRequest(stream, others);
    transport.read(method.format, {
      message: (request) => {
        cancelFirst();
        requests.receive(request);
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
    call.onClose(() => {
      requests.close();
      stream.close();
    });
  }

  #age(retire: () => void): NodeJS.Timeout | undefined {
    const random = this.#options.random ?? Math.random;
    const age = this.#options.maxConnectionAgeMs * (1 + AGE_JITTER * (2 * random() - 1));
    return age > MAX_TIMER_MS ? undefined : setTimeout(retire, age).unref();
  }

  /**
   * Shuts down gracefully: takes no new connections or streams, and ends one stream after the other with UNAVAILABLE,
   * so that proxies do not all connect to another replica at once. Writes are completed. Remaining streams are closed
   * after `drainMs`. Proxies keep their configuration.
   */
  async close({ drainMs }: { readonly drainMs: number }): Promise<void> {
    this.#draining = true;
    this.#health.close();
    const deadline = new Promise<void>((resolve) => setTimeout(resolve, drainMs).unref());
    this.#server.stopListening();
    this.#demand.learned.close();
    const drained = this.#endStreams(drainMs).then(() => this.#server.drain());
    await Promise.race([drained, deadline]);
    for (const stream of [...this.#streams]) stream.close();
    this.#frames.close();
    this.#server.destroy();
  }

  async #endStreams(drainMs: number): Promise<void> {
    const wait = this.#options.delay ?? delay;
    const streams = [...this.#streams];
    const steps = Math.max(1, Math.floor((drainMs * DRAIN_SHARE) / DRAIN_STEP_MS));
    const size = Math.max(1, Math.ceil(streams.length / steps));
    const ended: Promise<void>[] = [];
    for (let first = 0; first < streams.length; first += size) {
      if (first > 0) await wait(DRAIN_STEP_MS);
      for (const stream of streams.slice(first, first + size)) ended.push(stream.retire(stopping()));
    }
    await Promise.all(ended);
  }
}

/** Makes a server; `start()` binds it. */
export function createXdsServer(options: XdsServerOptions): XdsServer {
  return new XdsServer(options);
}
