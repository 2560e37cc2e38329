/** The options of the XDS server, and its limits where they set none. */
import type { TimeShares } from '../../core/fairness/time-shares.ts';
import type { Memos } from '../../core/memo.ts';
import type { GrpcListener, GrpcService, StreamCall } from '../../grpc/index.ts';
import type { PushEngine } from '../../push/index.ts';
import type { Caller } from '../../security/index.ts';
import type { ConfigServing } from './config-requests.ts';
import type { DebugPages } from './debug-stream.ts';
import type { PodFinder } from './node-authorization.ts';
import type { XdsObserver } from './observer.ts';
import type { WorkloadConnected } from './workload-stream.ts';

export interface XdsServerOptions {
  readonly engine: PushEngine;
  readonly observer: XdsObserver;
  readonly listeners: readonly GrpcListener[];
  /** Maximum size of a request, bytes (MESH_GPRC_MAXRECVMSGSIZE). */
  readonly maxReceiveBytes: number;
  /**
   * Maximum number of ADS streams of the server; no single address gets all of them (MESH_GPRC_MAXSTREAMS). The limit
   * of one connection is the same, but at most {@link MAX_CONNECTION_STREAMS}.
   */
  readonly maxStreams: number;
  /** Idle time before a ping, and wait for its response, ms. */
  readonly keepaliveIntervalMs: number;
  readonly keepaliveTimeoutMs: number;
  /** Age at which a connection is retired, ms, ± 10 %; Infinity: never. */
  readonly maxConnectionAgeMs: number;
  /** A stream whose socket accepts no bytes for this time, ms, is closed. */
  readonly sendTimeoutMs?: number;
  /** A connection without a stream for this time, ms, is closed. */
  readonly idleMs?: number;
  /**
   * Maximum number of connections of all listeners; no single address gets all of them. By default there is no limit.
   */
  readonly maxConnections?: number;
  /** Compresses responses for clients that accept gzip; by default they are sent as they are. */
  readonly compression?: boolean;
  /** Waits, ms; for tests. */
  readonly delay?: (ms: number) => Promise<unknown>;
  /** A unary request that is not complete after this time, ms, is refused. */
  readonly requestTimeoutMs?: number;
  /** Maximum number of incomplete unary requests of one connection. */
  readonly maxIncomplete?: number;
  /** An ADS stream whose first request is not complete after this time, ms, is ended. */
  readonly firstRequestMs?: number;
  /** Maximum number of streams that wait for admission; no single address gets all of them. */
  readonly maxEntering?: number;
  /**
   * Authenticates a stream before anything of it is read; resolves with undefined on a connection without
   * authentication. Rejects with CtlError unauthenticated or unavailable. By default streams are not authenticated.
   */
  readonly authenticate?: (call: StreamCall) => Promise<Caller | undefined>;
  /** Finds the Pods with which nodes of authenticated streams are compared; by default no Pods are known. */
  readonly podOf?: PodFinder;
  /** ID of the program's own cluster: that of callers whose credential is bound to one of its Pods. */
  readonly ownCluster?: string;
  /** Called for the streams of proxies, if given. */
  readonly workloadConnected?: WorkloadConnected;
  /** Answers requests for debug pages; left out: none are served. */
  readonly debugPages?: DebugPages;
  /** Serves documents to other control planes; left out: none are served. */
  readonly config?: ConfigServing;
  /** More services on the same listeners; they authenticate their callers themselves. */
  readonly services?: readonly GrpcService[];
  /** Hold results that streams share; left out: the server has its own. */
  readonly memos?: Memos;
  /** The time of the main thread that callers have used; by default only the time of this server counts. */
  readonly shares?: TimeShares;
  readonly clock?: { wall(): number; monotonic(): number };
  /** 0 ≤ x < 1; varies the maximum age of connections. */
  readonly random?: () => number;
}

/** A socket that accepts no bytes for this time has a peer that does not read. */
export const SEND_TIMEOUT_MS = 5000;

/**
 * Maximum number of streams of one connection: one frame of a client can affect all of them. A proxy has one, a client
 * of several services a few. A client that multiplexes many proxies opens another connection when it learns this limit
 * (SETTINGS_MAX_CONCURRENT_STREAMS).
 */
export const MAX_CONNECTION_STREAMS = 1000;

/** A connection without a stream is closed after this time: it is not authenticated. Proxies have a stream. */
export const IDLE_MS = 60_000;

/** A unary request is a few kilobytes, sent at once. */
export const REQUEST_TIMEOUT_MS = 10_000;

/** A client with many requests completes them one after the other, so that few are incomplete at the same time. */
export const MAX_INCOMPLETE = 256;
