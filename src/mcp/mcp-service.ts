/**
 * The gRPC service `istio.mcp.v1alpha1.ResourceSource`: serves documents to other control planes, on encrypted
 * connections with a credential.
 */
import { CtlError, type CtlErrorCode } from '../core/errors.ts';
import { type GrpcService, MessageReader, PerAddressLimiter, type StreamCall, withPrefix } from '../grpc/index.ts';
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

export interface McpServiceOptions {
  readonly served: ServedDocuments;
  /** Rejects with CtlError for a caller that is no control plane of the mesh. Resolves with its key for limits. */
  readonly authorize: (call: StreamCall) => Promise<string>;
  /** Largest request, bytes: one that states the versions of all documents is long. */
  readonly maxReceiveBytes: number;
  readonly observer: McpObserver;
}

/** Streams of all callers; no single address gets all of them. Each control plane has one. */
const MAX_STREAMS = 100;

export function createMcpService(options: McpServiceOptions): GrpcService {
  const { authorize, observer } = options;
  const limiter = new PerAddressLimiter(MAX_STREAMS);
  let open = 0;
  const refuse = (call: StreamCall, error: CtlError): void => {
    observer.refused(call.connection.peer, error);
    call.end(error);
  };
  const accept = (call: StreamCall): void => {
    const leave = limiter.enter(call.connection.address);
    if (leave === undefined) {
      refuse(call, new CtlError('resource_exhausted', 'too many streams of configuration'));
      return;
    }
    authorize(call)
      .finally(() => call.onClose(leave))
      .then((caller) => {
        if (call.closed) return;
        call.isOf(caller);
        observer.clients(++open);
        call.onClose(() => observer.clients(--open));
        serve(call, options);
      })
      .catch((error: unknown) => {
        if (error instanceof CtlError && error.code !== 'internal') refuse(call, error);
        else {
          observer.internalError(error, call.connection.peer);
          call.end(new CtlError('internal', 'internal error'));
        }
      });
  };
  return { streams: { [PATH]: accept } };
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
  const reader = new MessageReader(maxReceiveBytes, (message) => {
    observer.received(message.length);
    if (stream.receive(message) === 'ack') observer.acknowledged();
  });
  call.open();
  call.read({
    data(bytes) {
      if (call.closed) return;
      try {
        // A copy: the bytes are valid until the return.
        reader.take(Buffer.from(bytes));
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
