/**
 * The contracts of the gRPC server. Requests are read without a copy, chunks that thousands of streams share are
 * written without a copy, and the cost of a connection is bounded. docs/decisions/0001-own-grpc-server.md explains why
 * this project has its own server. Source: RFC 9113 (HTTP/2), RFC 7541 (HPACK),
 * https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
 */
import type { SecureContextOptions, TLSSocket, TlsOptions } from 'node:tls';
import type { CtlError } from '../core/errors.ts';
import type { TimeShares } from '../core/fairness/time-shares.ts';

/** Headers of a request without its pseudo headers; names in lower case, values unchanged. */
export interface Metadata {
  /** All values of the name, in order. */
  get(name: string): readonly string[];
}

/** The connection of a call: the same object for all of its calls. */
export interface ConnectionInfo {
  /** Address and port of the peer, for logs. */
  readonly peer: string;
  /** Address of the peer; empty when it has disconnected already. */
  readonly address: string;
  /** Set when the connection is encrypted. */
  readonly secured: TLSSocket | undefined;
}

/** The beginning of a call. */
export interface CallHead {
  /** `/package.Service/Method`. */
  readonly path: string;
  readonly metadata: Metadata;
  readonly connection: ConnectionInfo;
}

/** How messages are compressed. Source: https://github.com/grpc/grpc/blob/master/doc/compression.md */
export type MessageEncoding = 'gzip';

/** `drained`: the bytes have left the socket; `timeout`: the peer does not read; `closed`: the call has ended. */
export type SendResult = 'drained' | 'timeout' | 'closed';

/** Receives the data of a client. */
export interface CallReader {
  /**
   * Bytes of length-prefixed messages, split anywhere. They are valid until the return, and have to be copied to be
   * kept.
   */
  data(bytes: Buffer): void;
  /** The client has half-closed the call. */
  ended(): void;
}

/** A call with messages in both directions, as bytes with their prefixes. */
export interface StreamCall extends CallHead {
  /** True when the call is over, whichever side ended it. */
  readonly closed: boolean;
  /**
   * Sends the response's headers, so that the client knows that the call was accepted before there is a message.
   *
   * @param encoding of messages whose compressed flag is set; by default there are none
   */
  open(encoding?: MessageEncoding): void;
  /** Starts reading; earlier data has waited in the flow-control window. To be called once. */
  read(reader: CallReader): void;
  /** Stops and resumes reading. Up to about one window of bytes may wait meanwhile. */
  pause(): void;
  resume(): void;
  /**
   * Writes length-prefixed messages, given as chunks that are neither changed nor copied and may be shared by many
   * calls. `done` is called once, later or immediately. Writes may overlap; they are sent in order.
   */
  write(chunks: readonly Uint8Array[], done: (result: SendResult) => void): void;
  /** Ends the call with OK, or with the error's status, after all writes. */
  end(error?: CtlError): void;
  /** Writes a last message and ends the call with OK, together if windows allow. */
  reply(message: readonly Uint8Array[]): void;
  /** Resets the call without waiting for writes (RST_STREAM CANCEL). */
  abort(): void;
  /** Asks the peer to use another connection: this one takes no new calls and closes after its last one (GOAWAY). */
  retireConnection(): void;
  /** From now on, the time of the connection is charged to this caller, and not to the client's address. */
  isOf(caller: string): void;
  /** Calls `listener` once when the call is over; immediately if it is already. */
  onClose(listener: () => void): void;
}

export type StreamHandler = (call: StreamCall) => void;

/** A call with a complete request. */
export interface UnaryCall extends CallHead {
  readonly request: Buffer;
}

/** Answers one request. Rejects with CtlError, which becomes the status; anything else is an internal error. */
export type UnaryHandler = (call: UnaryCall) => Promise<Buffer>;

export interface UnaryMethod {
  readonly handler: UnaryHandler;
  /** Largest request, bytes. */
  readonly maxReceiveBytes: number;
}

/** Methods by path. */
export interface GrpcService {
  readonly unary?: Readonly<Record<string, UnaryMethod>>;
  readonly streams?: Readonly<Record<string, StreamHandler>>;
}

/** TLS settings of a listener. */
export interface ListenerTls {
  readonly options: Pick<TlsOptions, 'requestCert' | 'rejectUnauthorized'> & { readonly handshakeTimeout: number };
  /** Used for new connections. */
  context(): SecureContextOptions;
  /** The TLS session with this identifier, for a client that resumes it; undefined if a full handshake is needed. */
  resume?(id: Buffer): Buffer | undefined;
  /** Called after a handshake. False: the client's certificate cannot be read, and the connection is closed. */
  secured?(socket: TLSSocket): boolean;
  /** Calls `listener` after each change of `context`. Returns a function that stops this. */
  onRenew(listener: () => void): () => void;
}

export interface GrpcListener {
  /** Address to bind. When undefined, all addresses are bound. */
  readonly host?: string | undefined;
  /** 0: any free port; see `ports()`. */
  readonly port: number;
  /** Plain text when left out. */
  readonly tls?: ListenerTls | undefined;
}

/**
 * Why a connection has ended before its client sent the HTTP/2 preface: the limit of connections, the time limit of the
 * handshake, a failed handshake, a protocol or certificate that was refused after the handshake, the client closing it
 * during the handshake, or either side closing it afterwards.
 */
export type EarlyEnd = 'limit' | 'timeout' | 'handshake' | 'refused' | 'client' | 'no_preface';

/** Receives the events of a server. */
export interface GrpcObserver {
  /** A connection has ended before its client sent the preface of HTTP/2. */
  endedEarly(reason: EarlyEnd): void;
  /** A connection or a call was refused before its handler was called. */
  refused(peer: string, error: CtlError): void;
  /** A unary request exceeded the limit of its method. */
  requestTooLarge(peer: string, details: string): void;
  /** A bug of this program. */
  internalError(error: unknown, peer: string): void;
}

export interface GrpcServerOptions {
  readonly listeners: readonly GrpcListener[];
  readonly services: readonly GrpcService[];
  readonly observer: GrpcObserver;
  /** Maximum number of concurrent calls on one connection. */
  readonly maxStreams: number;
  /** Maximum number of connections of all listeners; no single address gets all of them. Infinity: no limit. */
  readonly maxConnections: number;
  /** Idle time before a ping, and wait for its response, ms. */
  readonly keepaliveIntervalMs: number;
  readonly keepaliveTimeoutMs: number;
  /** A connection without a call for this time, ms, is closed. */
  readonly idleMs: number;
  /** Writes to a socket that accepts no data for this time, ms, end with `timeout`. */
  readonly sendTimeoutMs: number;
  /** A unary request that is not complete after this time, ms, is refused. */
  readonly requestTimeoutMs: number;
  /** Maximum number of incomplete unary requests on one connection. */
  readonly maxIncomplete: number;
  /** The time that callers have used; by default only the time of this server counts. */
  readonly shares?: TimeShares | undefined;
}

export interface GrpcServer {
  /**
   * Binds all listeners. Rejects with CtlError unavailable if a listener cannot be bound, without leaving any listener
   * open.
   */
  start(): Promise<void>;
  /** Bound port of each listener, in order. */
  ports(): number[];
  /** Refuses new connections, and closes connections without calls. */
  stopListening(): void;
  /** Refuses new connections and calls (GOAWAY); resolves when all connections have ended. */
  drain(): Promise<void>;
  /** Closes everything now. */
  destroy(): void;
}
