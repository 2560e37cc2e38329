/** gRPC over HTTP/2: a server, and a client of single streams. */

export {
  type ClientStream,
  openClientStream,
  type StreamClientOptions,
  type StreamHandler as ClientStreamHandler,
  type StreamTarget,
  type StreamTls,
} from './client/stream-client.ts';
export { type Deflated, deflatePart, gzipMessage, type MessagePart } from './compression/gzip-message.ts';
export { acceptsEncoding } from './headers/headers.ts';
export { networkOf, PerAddressLimiter } from './limits/per-address-limiter.ts';
export { MESSAGE_PREFIX_BYTES, prefixError, prefixed, withPrefix } from './messages.ts';
export { createGrpcServer } from './server.ts';
export { CallMessages } from './streams/call-messages.ts';
export { copiedBytes } from './streams/frame-writer.ts';
export type {
  CallHead,
  CallReader,
  ConnectionInfo,
  EarlyEnd,
  GrpcListener,
  GrpcServer,
  GrpcService,
  ListenerTls,
  MessageEncoding,
  Metadata,
  SendResult,
  StreamCall,
  StreamHandler,
  UnaryCall,
  UnaryHandler,
} from './types.ts';
