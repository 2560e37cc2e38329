/** gRPC over HTTP/2, the server's side. */

export { checkedLength, MESSAGE_PREFIX_BYTES, prefixError, prefixed } from './messages.ts';
export { networkOf, PerAddressLimiter } from './per-address-limiter.ts';
export { createGrpcServer } from './server.ts';
