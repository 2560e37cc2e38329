/**
 * Clients of gRPC services (@grpc/grpc-js), loaded when they are needed: an agent without certificates and without an
 * xDS proxy has none. Messages are bytes: callers encode and decode them.
 */
import type { Socket } from 'node:net';
import type * as Grpc from '@grpc/grpc-js';
import type {
  ChannelCredentials,
  Client,
  ClientDuplexStream,
  ClientOptions,
  ClientUnaryCall,
  Metadata,
  ServiceError,
  VerifyOptions,
} from '@grpc/grpc-js';
import { CtlError, oneLineOf } from '../../core/errors.ts';
import { hostPort } from '../../core/network/listen.ts';
import { callError, isStatusOfServer } from './call-error.ts';
import { asBuffer, loadGrpc } from './load.ts';

export interface GrpcTarget {
  readonly address: { readonly host: string; readonly port: number } | { readonly path: string };
  /** Undefined for plain text. */
  readonly tls: GrpcTls | undefined;
}

export interface GrpcTls {
  /** DNS name that the server's certificate must have, unless {@link GrpcTls.serverId} is set. */
  readonly serverName: string;
  /** SPIFFE ID that the server's certificate must have; absent: the DNS name counts. */
  readonly serverId?: string | undefined;
  /** PEM certificates of the roots that verify the server's certificate. */
  readonly roots: string;
  /** The client certificate, PEM. */
  readonly client: { readonly chain: string; readonly key: string } | undefined;
}

export interface GrpcClientOptions {
  /** Longer responses are rejected. */
  readonly maxMessageBytes: number;
  /** HTTP/2 PINGs while a call is open; undefined for none. A server without an answer within 10 s is disconnected. */
  readonly keepaliveMs?: number;
}

export interface UnaryCall {
  /** `/package.Service/Method`. */
  readonly path: string;
  readonly request: Uint8Array;
  /** Metadata, with lower-case names. */
  readonly metadata?: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
}

/** How long connecting may take, ms: a server that is gone is noticed early, a busy one has time for the handshake. */
export interface ConnectLimits {
  /** Until a TCP connection is open. */
  readonly connectMs: number;
  /** From then on: for TLS and the settings of HTTP/2. */
  readonly handshakeMs: number;
}

export type Connected = 'ready' | 'no connection' | 'no handshake';

export type BytesStream = ClientDuplexStream<Uint8Array, Buffer>;

export interface GrpcClient {
  /** Rejects with CtlError: the server's status, or `unavailable` for failures of the connection and at the deadline. */
  unary(call: UnaryCall): Promise<Buffer>;
  /**
   * Opens a stream in both directions. It ends with an `error` event, which `errorOf` makes a CtlError, or with `end`
   * after the status OK.
   */
  stream(path: string, metadata?: Readonly<Record<string, string>>): BytesStream;
  /** Connects. Resolves when calls can begin, or with what has not happened in time; a failure is tried again. */
  ready(limits: ConnectLimits): Promise<Connected>;
  /** Converts the error of a stream or call to a CtlError. */
  errorOf(error: unknown): CtlError;
  /** Whether the error of a stream or call is a status that the server has sent: the connection works. */
  isStatusOfServer(error: unknown): boolean;
  /** Closes the connection; calls in progress fail. */
  close(): void;
}

const KEEPALIVE_TIMEOUT_MS = 10_000;
/** grpc-js keeps the timer of such a wait also when the client is closed, and the process alive with it. */
const READY_SLICE_MS = 1000;
/** Time for the end of calls to be sent before the connection is destroyed. */
const CLOSE_MS = 500;

/**
 * A client, which connects at its first call. Loads grpc-js. Rejects with CtlError failed_precondition when the roots
 * or the client's certificate are not usable.
 */
export async function openGrpcClient(target: GrpcTarget, options: GrpcClientOptions): Promise<GrpcClient> {
  const grpc = await loadGrpc();
  const name = nameOf(target.address);
  const credentials = createCredentials(grpc, target.tls);
  const sockets = socketsOf(credentials);
  const client: Client = new grpc.Client(toTarget(target.address), credentials, channelOptions(target, options));
  const metadataOf = (values: Readonly<Record<string, string>> = {}): Metadata => {
    const metadata = new grpc.Metadata();
    for (const [key, value] of Object.entries(values)) metadata.set(key, value);
    return metadata;
  };
  const isReady = (withinMs: number): Promise<boolean> =>
    new Promise((resolve) => client.waitForReady(Date.now() + withinMs, (error) => resolve(error === undefined)));
  let closed = false;
  // Closing a grpc-js client does not end its calls.
  const open = new Set<ClientUnaryCall | BytesStream>();
  const opened = <C extends ClientUnaryCall | BytesStream>(call: C): C => {
    open.add(call);
    call.on('status', () => open.delete(call));
    return call;
  };
  return {
    unary: ({ path, request, metadata, timeoutMs }) =>
      new Promise((resolve, reject) => {
        const deadline = Date.now() + timeoutMs;
        const done = (error: ServiceError | null, answer?: Buffer): void => {
          if (error === null && answer !== undefined) resolve(answer);
          else reject(callError(error, name, timeoutMs));
        };
        opened(client.makeUnaryRequest(path, asBuffer, asBuffer, request, metadataOf(metadata), { deadline }, done));
      }),
    stream: (path, metadata) => opened(client.makeBidiStreamRequest(path, asBuffer, asBuffer, metadataOf(metadata))),
    async ready({ connectMs, handshakeMs }) {
      if (await isReady(connectMs)) return 'ready';
      if (!sockets.wereOpen()) return 'no connection';
      for (let left = handshakeMs; left > 0 && !closed; left -= READY_SLICE_MS)
        if (await isReady(Math.min(left, READY_SLICE_MS))) return 'ready';
      return 'no handshake';
    },
    errorOf: (error) => callError(error, name),
    isStatusOfServer,
    close() {
      closed = true;
      for (const call of open) call.cancel();
      client.close();
      setTimeout(sockets.destroy, CLOSE_MS).unref();
    },
  };
}

interface Sockets {
  /** Whether a TCP connection has been established. */
  readonly wereOpen: () => boolean;
  readonly destroy: () => void;
}

/**
 * Follows the sockets of a channel with these credentials; `destroy` closes them and all later ones. A channel of
 * grpc-js that is closed while it connects forgets its socket: with a server that accepts connections and stays silent,
 * each attempt would leave one open for good.
 */
function socketsOf(credentials: ChannelCredentials): Sockets {
  const sockets = new Set<Socket>();
  let wereOpen = false;
  let destroyed = false;
  const create = credentials._createSecureConnector.bind(credentials);
  credentials._createSecureConnector = (...target) => {
    const connector = create(...target);
    const connect = connector.connect.bind(connector);
    connector.connect = (socket) => {
      wereOpen = true;
      sockets.add(socket);
      socket.once('close', () => sockets.delete(socket));
      if (destroyed) socket.destroy();
      return connect(socket);
    };
    return connector;
  };
  return {
    wereOpen: () => wereOpen,
    destroy() {
      destroyed = true;
      for (const socket of sockets) socket.destroy();
    },
  };
}

function createCredentials({ credentials }: typeof Grpc, tls: GrpcTls | undefined): ChannelCredentials {
  if (tls === undefined) return credentials.createInsecure();
  const own = tls.client === undefined ? [] : [Buffer.from(tls.client.key), Buffer.from(tls.client.chain)];
  try {
    const [key = null, chain = null] = own;
    return credentials.createSsl(Buffer.from(tls.roots), key, chain, verificationOf(tls));
  } catch (error) {
    const message = `the roots or the certificate for TLS are not usable: ${oneLineOf(error)}`;
    throw new CtlError('failed_precondition', message, {}, error);
  }
}

/** In place of the verification of the DNS name: the certificate must have the SPIFFE ID. */
function verificationOf({ serverId }: GrpcTls): VerifyOptions {
  if (serverId === undefined) return {};
  return {
    checkServerIdentity: (_, { subjectaltname = '' }) =>
      subjectaltname.split(', ').includes(`URI:${serverId}`)
        ? undefined
        : new CtlError('unauthenticated', `the certificate of the server does not have the identity ${serverId}`),
  };
}

function channelOptions({ tls }: GrpcTarget, { maxMessageBytes, keepaliveMs }: GrpcClientOptions): ClientOptions {
  return {
    'grpc.enable_channelz': 0,
    // The callers retry with their own backoff and limits.
    'grpc.enable_retries': 0,
    // Variables such as https_proxy of an application's container are not for the mesh.
    'grpc.enable_http_proxy': 0,
    // No TXT record of the server's name may configure the client.
    'grpc.service_config_disable_resolution': 1,
    // Clients of one address must not share a connection: their credentials differ.
    'grpc.use_local_subchannel_pool': 1,
    'grpc.max_receive_message_length': maxMessageBytes,
    ...(keepaliveMs === undefined
      ? {}
      : { 'grpc.keepalive_time_ms': keepaliveMs, 'grpc.keepalive_timeout_ms': KEEPALIVE_TIMEOUT_MS }),
    ...(tls === undefined
      ? {}
      : { 'grpc.ssl_target_name_override': tls.serverName, 'grpc.default_authority': tls.serverName }),
  };
}

function toTarget(address: GrpcTarget['address']): string {
  return 'path' in address ? `unix:${address.path}` : `dns:${nameOf(address)}`;
}

function nameOf(address: GrpcTarget['address']): string {
  return 'path' in address ? address.path : hostPort(address);
}
