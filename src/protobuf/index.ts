/**
 * Entry point of protobuf: Envoy's messages (generated, see `proto/messages.ts`), type URLs, packing into Any, and
 * proto3 JSON in both directions. No I/O.
 */
export { envoy, google, istio, mesh, type opentelemetry, xds } from '../../proto/gen/envoy.js';
export { type Encodable, encode, packAny, packBytes } from './any.ts';
export { fromProtoJson } from './from-json.ts';
export { mergeMessages } from './merge.ts';
export { redactProtoJson } from './redact-json.ts';
export { type JsonObject, type JsonValue, toProtoJson, toShownJson } from './to-json.ts';
export { messageNameOf } from './type-urls.ts';
