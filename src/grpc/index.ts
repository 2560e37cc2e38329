/** gRPC over HTTP/2, the server's side. */
export { AddressShares, networkOf } from './address-shares.ts';
export { checkedLength, MESSAGE_PREFIX_BYTES, prefixError, prefixed } from './messages.ts';
export { createGrpcServer } from './server.ts';
