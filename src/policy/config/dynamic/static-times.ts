/** Times in the parameters of handlers: google.protobuf.Duration as `1.5s`, google.protobuf.Timestamp as in RFC 3339. */
import { type Duration, parsedDuration, parsedTimestamp, type Timestamp } from '../../../expressions/index.ts';

/** Undefined if the message is neither, or the string has no such value. */
export function durationMessage(typeName: string, value: unknown): Duration | Timestamp | undefined {
  if (typeof value !== 'string') return undefined;
  if (typeName === '.google.protobuf.Duration') return parsedDuration(value);
  return typeName === '.google.protobuf.Timestamp' ? parsedTimestamp(value) : undefined;
}
