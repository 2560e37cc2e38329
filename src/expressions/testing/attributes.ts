/** A vocabulary and attributes for tests of expressions. */
import type { Attributes, Value, ValueType, Vocabulary } from '../types.ts';

export const VOCABULARY: Vocabulary = new Map<string, ValueType>([
  ['source.name', 'STRING'],
  ['source.ip', 'IP_ADDRESS'],
  ['source.labels', 'STRING_MAP'],
  ['request.headers', 'STRING_MAP'],
  ['request.path', 'STRING'],
  ['request.host', 'DNS_NAME'],
  ['request.size', 'INT64'],
  ['request.ratio', 'DOUBLE'],
  ['request.time', 'TIMESTAMP'],
  ['response.duration', 'DURATION'],
  ['request.user', 'EMAIL_ADDRESS'],
  ['request.referer', 'URI'],
  ['connection.mtls', 'BOOL'],
  ['size', 'INT64'],
]);

const PRESENT: ReadonlyMap<string, Value> = new Map<string, Value>([
  ['source.name', 'front'],
  ['source.ip', Uint8Array.of(10, 0, 0, 1)],
  ['source.labels', new Map([['app', 'front']])],
  ['request.headers', new Map([['user-agent', 'curl/8']])],
  ['request.path', '/api/v1'],
  ['request.size', 200n],
  ['request.ratio', 0.5],
  ['request.time', { kind: 'timestamp', nanos: 1_700_000_000_123_456_789n }],
  ['response.duration', { kind: 'duration', nanos: 19_000_000n }],
  ['request.user', 'ann@Example.com'],
  ['connection.mtls', true],
]);

/** All attributes are present, except `request.host`, `request.referer` and `size`. */
export const SOME: Attributes = { get: (name) => PRESENT.get(name) };

/** All are missing. */
export const NONE: Attributes = { get: () => undefined };
