/** Values of attributes from the forms in which Envoy reports them. */
import type { Duration, Timestamp } from '../../expressions/index.ts';
import type { envoy, google } from '../../protobuf/index.ts';

type Int64 = google.protobuf.Timestamp['seconds'];

export function numberOf(value: Int64): number {
  return typeof value === 'number' ? value : value.toNumber();
}

export function int(value: Int64): bigint {
  return BigInt(Math.trunc(numberOf(value)));
}

export function timestamp(time: google.protobuf.Timestamp | null | undefined): Timestamp | undefined {
  if (time === null || time === undefined) return undefined;
  return { kind: 'timestamp', nanos: int(time.seconds) * 1_000_000_000n + BigInt(time.nanos) };
}

export function duration(length: google.protobuf.Duration | null | undefined): Duration | undefined {
  if (length === null || length === undefined) return undefined;
  return { kind: 'duration', nanos: int(length.seconds) * 1_000_000_000n + BigInt(length.nanos) };
}

export function socketOf(
  address: envoy.config.core.v3.Address | null | undefined,
): { readonly address: string; readonly port: number } | undefined {
  const socket = address?.socketAddress;
  return socket === null || socket === undefined ? undefined : { address: socket.address, port: socket.portValue ?? 0 };
}

/** The 4 or 16 bytes of an IP address; undefined for any other string. */
export function addressBytes(text: string): Uint8Array | undefined {
  const parts = text.split('.');
  if (parts.length === 4 && !text.includes(':')) {
    const bytes = parts.map(Number);
    return bytes.every((byte) => Number.isInteger(byte) && byte >= 0 && byte <= 255)
      ? Uint8Array.from(bytes)
      : undefined;
  }
  return text.includes(':') ? sixteenBytes(text) : undefined;
}

function sixteenBytes(text: string): Uint8Array | undefined {
  const [, start = '', dotted] = /^(.*:)(\d+\.\d+\.\d+\.\d+)$/.exec(text) ?? [];
  const four = dotted === undefined ? undefined : addressBytes(dotted);
  const hex = four === undefined ? text : `${start}${group(four, 0)}:${group(four, 2)}`;
  const [head = '', tail, ...more] = hex.split('::');
  if (more.length > 0) return undefined;
  const groups = (part: string): string[] => (part === '' ? [] : part.split(':'));
  const [before, after] = [groups(head), groups(tail ?? '')];
  const missing = 8 - before.length - after.length;
  if (tail === undefined ? missing !== 0 : missing < 1) return undefined;
  const all = [...before, ...Array<string>(missing).fill('0'), ...after];
  if (!all.every((each) => /^[0-9a-fA-F]{1,4}$/.test(each))) return undefined;
  return Uint8Array.from(all.flatMap((each) => [Number.parseInt(each, 16) >> 8, Number.parseInt(each, 16) & 255]));
}

function group(bytes: Uint8Array, at: number): string {
  return (((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0)).toString(16);
}
