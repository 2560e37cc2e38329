/**
 * gRPC over HTTP/2, the server's side: the contracts that other modules use. Requests are read where they arrive,
 * chunks that thousands of streams share go to the socket as they are, and what a connection may cost is bounded. Why
 * it is our own is in docs/decisions/0001-own-grpc-server.md. Source: RFC 9113 (HTTP/2), RFC 7541 (HPACK),
 * https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
 */
import type { SecureContextOptions, TLSSocket, TlsOptions } from 'node:tls';
import type { CtlError } from '../core/errors.ts';

/** Headers of a request without its pseudo headers; names in lower case, values as they came. */
export interface Metadata {
  /** All values of the name, in order. */
  get(name: string): readonly string[];
}

/** The connection that a call came on. The same object for all of its calls. */
export interface ConnectionInfo {
  /** Address and port of the other end, for logs. */
  readonly peer: string;
  /** The other end's address alone; empty when it has gone by now. */
  readonly address: string;
  /** Set when the connection is encrypted. */
  readonly secured: TLSSocket | undefined;
}

/** What a call begins with. */
export interface CallHead {
  /** `/package.Service/Method`. */
  readonly path: string;
  readonly metadata: Metadata;
  readonly connection: ConnectionInfo;
}

/**
 * `drained`: the bytes have left for the socket; `timeout`: the other end reads nothing; `closed`: the call is over.
 */
export type SendResult = 'drained' | 'timeout' | 'closed';

/** Takes what a client sends. */
export interface CallReader {
  /**
   * Bytes of length-prefixed messages, cut anywhere. They may change after the return: what is to be kept has to be
   * copied.
   */
  data(bytes: Buffer): void;
  /** The client has said all that it has to say. */
  ended(): void;
}

/** A call whose messages go both ways as bytes with their prefixes. */
export interface StreamCall extends CallHead {
  /** It is over, whoever ended it. */
  readonly closed: boolean;
  /** Sends the response's headers: a client sees that it is connected before there is anything to say. */
  open(): void;
  /** Starts reading; what came before waited in the flow-control window. To be called once. */
  read(reader: CallReader): void;
  /** Stops and starts reading. Little more than a window's bytes may wait meanwhile. */
  pause(): void;
  resume(): void;
  /**
   * Sends length-prefixed messages given as chunks, which are never changed or copied and may be shared by any number
   * of calls. `done` is called once, later or at once. Calls may overlap; they are written in order.
   */
  write(chunks: readonly Uint8Array[], done: (result: SendResult) => void): void;
  /** Ends with OK, or with the error's status, after what was written. */
  end(error?: CtlError): void;
  /** Sends a last message and ends with OK, at once where windows let it. */
  reply(message: readonly Uint8Array[]): void;
  /** Tears the call down without waiting for anything (RST_STREAM CANCEL). */
  abort(): void;
  /** Asks the peer to move: no new calls on this connection, which closes when its last call has ended (GOAWAY). */
  retireConnection(): void;
  /** Called once when the call is over, whoever ended it; at once when it is already. */
  onClose(listener: () => void): void;
}

export type StreamHandler = (call: StreamCall) => void;

/** A request that has come whole. */
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

/** The TLS of a listener. */
export interface ListenerTls {
  readonly options: Pick<TlsOptions, 'requestCert' | 'rejectUnauthorized' | 'handshakeTimeout'>;
  /** Of the connections that come from now on. */
  context(): SecureContextOptions;
  /**
   * The session with this identifier, for a client that wants to go on with it; undefined: it has to shake hands anew.
   */
  resume?(id: Buffer): Buffer | undefined;
  /** A handshake is done. False: nothing can be said of the client, and the connection is closed. */
  secured?(socket: TLSSocket): boolean;
  /** Calls after each change of `context`. Returns how to stop. */
  onRenew(listener: () => void): () => void;
}

export interface GrpcListener {
  /** Address to bind; undefined: all. */
  readonly host?: string | undefined;
  /** 0: any free port; see `ports()`. */
  readonly port: number;
  /** Plain text when left out. */
  readonly tls?: ListenerTls | undefined;
}

/** What a server tells of itself. */
export interface GrpcObserver {
  /** A connection or a call was turned away before a handler saw it. */
  refused(peer: string, error: CtlError): void;
  /** A unary request was over its method's limit. */
  requestTooLarge(peer: string, details: string): void;
  /** A fault of ours. */
  internalError(error: unknown, peer: string): void;
}

export interface GrpcServerOptions {
  readonly listeners: readonly GrpcListener[];
  readonly services: readonly GrpcService[];
  readonly observer: GrpcObserver;
  /** Calls of one connection at a time. */
  readonly maxStreams: number;
  /** Connections of all listeners together, of which no single address gets all. Infinity: no limit. */
  readonly maxConnections: number;
  /** Idle time before a ping, and wait for its answer, ms. */
  readonly keepaliveIntervalMs: number;
  readonly keepaliveTimeoutMs: number;
  /** A connection without any call for this long, ms, is closed. */
  readonly idleMs: number;
  /** Bytes that wait for a socket which takes nothing for so long, ms, are given up: `timeout`. */
  readonly sendTimeoutMs: number;
  /** A unary request that has not come whole after this long, ms, is refused. */
  readonly requestTimeoutMs: number;
  /** Unary requests of one connection that have not come whole. */
  readonly maxIncomplete: number;
}

export interface GrpcServer {
  /** Binds all listeners. Rejects with CtlError unavailable when one cannot be bound; then none is left open. */
  start(): Promise<void>;
  /** Bound port of each listener, in order. */
  ports(): number[];
  /** No new connections and calls (GOAWAY); resolves when all connections have ended by themselves. */
  drain(): Promise<void>;
  /** Closes everything now. */
  destroy(): void;
}
