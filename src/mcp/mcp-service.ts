/**
 * The gRPC service `istio.mcp.v1alpha1.ResourceSource`: serves documents to other control planes, on encrypted
 * connections with a credential.
 */
import type { Clock } from '../core/clock.ts';
import { CtlError, type CtlErrorCode } from '../core/errors.ts';
import { CallMessages, type GrpcService, PerAddressLimiter, type StreamCall, withPrefix } from '../grpc/index.ts';
import { McpStream, type Response } from './mcp-stream.ts';
import type { ServedDocuments } from './served-documents.ts';

const PATH = '/istio.mcp.v1alpha1.ResourceSource/EstablishResourceStream';

export interface McpObserver {
  /** The number of open streams. */
  clients(count: number): void;
  /** A request was received. */
  received(bytes: number): void;
  acknowledged(): void;
  rejected(peer: string, message: string): void;
  /** A request could not be read. */
  receiveFailed(code: CtlErrorCode): void;
  /** A response could not be sent. */
  sendFailed(): void;
  refused(peer: string, error: CtlError): void;
  internalError(error: unknown, peer: string): void;
}

/** A control plane that may read. */
export interface McpReader {
  /** For limits. */
  readonly key: string;
  /** How long its stream may last, ms: its credential expires, and connections have a maximum age. */
  readonly maxStreamMs: number;
}

export interface McpService extends GrpcService {
  /** Ends all streams, so that readers connect to another replica, and refuses others. */
  close(): void;
}

export interface McpServiceOptions {
  readonly served: ServedDocuments;
  /** Rejects with CtlError for a caller that is no control plane of the mesh. */
  readonly authorize: (call: StreamCall) => Promise<McpReader>;
  /** Largest request, bytes: one that states the versions of all documents is long. */
  readonly maxReceiveBytes: number;
  readonly observer: McpObserver;
  readonly clock: Pick<Clock, 'setTimer'>;
}

/** Longest delay of a timer. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Streams of all callers; no single address gets all of them. Each control plane has one. */
const MAX_STREAMS = 100;

export function createMcpService(options: McpServiceOptions): McpService {
  const { authorize, observer, clock } = options;
  const limiter = new PerAddressLimiter(MAX_STREAMS);
  const open = new Set<StreamCall>();
  let stopping = false;
  const refuse = (call: StreamCall, error: CtlError): void => {
    observer.refused(call.connection.peer, error);
    call.end(error);
  };
  const serveUntil = (call: StreamCall, { key, maxStreamMs }: McpReader): void => {
    call.isOf(key);
    open.add(call);
    observer.clients(open.size);
    const timer = clock.setTimer(Math.min(Math.max(maxStreamMs, 0), MAX_TIMER_MS), () => {
      call.retireConnection();
      call.end(new CtlError('unavailable', 'the credential or the connection has reached its maximum age: reconnect'));
    });
    call.onClose(() => {
      timer.cancel();
      open.delete(call);
      observer.clients(open.size);
    });
    serve(call, options);
  };
  const accept = (call: StreamCall): void => {
    if (stopping) {
      call.end(stopped());
      return;
    }
    const leave = limiter.enter(call.connection.address);
    if (leave === undefined) {
      refuse(call, new CtlError('resource_exhausted', 'too many streams of configuration'));
      return;
    }
    authorize(call)
      .finally(() => call.onClose(leave))
      .then((reader) => {
        if (stopping) call.end(stopped());
        else if (!call.closed) serveUntil(call, reader);
      })
      .catch((error: unknown) => {
        if (error instanceof CtlError && error.code !== 'internal') refuse(call, error);
        else {
          observer.internalError(error, call.connection.peer);
          call.end(new CtlError('internal', 'internal error'));
        }
      });
  };
  const close = (): void => {
    stopping = true;
    for (const call of [...open]) call.end(stopped());
  };
  return { streams: { [PATH]: accept }, close };
}

function stopped(): CtlError {
  return new CtlError('unavailable', 'this replica is stopping: reconnect');
}

function serve(call: StreamCall, { served, maxReceiveBytes, observer }: McpServiceOptions): void {
  const { peer } = call.connection;
  const send = (response: Response): void => {
    call.write(withPrefix(response), (result) => {
      if (result === 'drained') return;
      observer.sendFailed();
      if (result === 'timeout') call.abort();
    });
  };
  const stream = new McpStream(served, send, (message) => observer.rejected(peer, message));
  const stop = served.onChange((kinds) => stream.changed(kinds));
  call.onClose(stop);
  const reader = new CallMessages(maxReceiveBytes, (message) => {
    observer.received(message.length);
    if (stream.receive(message) === 'ack') observer.acknowledged();
  });
  call.open();
  call.read({
    data(bytes) {
      if (call.closed) return;
      try {
        reader.add(bytes);
      } catch (error) {
        if (!(error instanceof CtlError)) throw error;
        observer.receiveFailed(error.code);
        observer.refused(peer, error);
        call.end(error);
      }
    },
    ended: () => call.end(),
  });
}
