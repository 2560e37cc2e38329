/** gRPC over HTTP/2, the server's side. */

export { networkOf, PerAddressLimiter } from './limits/per-address-limiter.ts';
export { MESSAGE_PREFIX_BYTES, prefixError, prefixed } from './messages.ts';
export { createGrpcServer } from './server.ts';
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
  SendResult,
  StreamCall,
  StreamHandler,
  UnaryCall,
  UnaryHandler,
} from './types.ts';
