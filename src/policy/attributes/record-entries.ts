/**
 * The entries of a message of Envoy's access log service, one by one: a message of empty entries has half a million.
 * https://www.envoyproxy.io/docs/envoy/latest/api-v3/service/accesslog/v3/als.proto
 */
import { WireReader } from '../../protobuf/wire/index.ts';

export interface RecordEntry {
  readonly kind: 'http' | 'tcp';
  /** An encoded HTTPAccessLogEntry or TCPAccessLogEntry. */
  readonly bytes: Buffer;
}

/** Fields of StreamAccessLogsMessage. Both kinds of entries are field 1 of their message. */
const KINDS: ReadonlyMap<number, RecordEntry['kind']> = new Map([
  [2, 'http'],
  [3, 'tcp'],
]);

/** Throws CtlError `invalid_argument` for bytes that are no such message. */
export function* entriesOf(message: Uint8Array): Generator<RecordEntry> {
  const reader = new WireReader(Buffer.from(message.buffer, message.byteOffset, message.length));
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    const kind = KINDS.get(field.number);
    if (kind === undefined) continue;
    const entries = reader.inside(field);
    for (let entry = entries.next(); entry !== undefined; entry = entries.next())
      if (entry.number === 1) yield { kind, bytes: entries.content(entry) };
  }
}
