/**
 * HTTP/2 frames, as far as a gRPC client with one stream needs them. Written by hand, because a thousand clients in one
 * process must cost little: node:http2 makes a buffer and an event for every 16 KiB that arrive. Source: RFC 9113
 * (frames), RFC 7541 (header fields, here only as literals without an index).
 */

export const FRAME = { data: 0, headers: 1, rstStream: 3, settings: 4, ping: 6, goaway: 7, windowUpdate: 8 } as const;

export const FRAME_HEADER_BYTES = 9;
/** Largest DATA frame that is sent: the default SETTINGS_MAX_FRAME_SIZE. */
export const MAX_FRAME_BYTES = 16_384;
export const DEFAULT_WINDOW = 65_535;
/** The largest window that HTTP/2 allows: the sender never waits for the client. */
export const LARGE_WINDOW = 2 ** 31 - 1;

export const FLAG_ACK = 1;
export const FLAG_END_STREAM = 1;
export const FLAG_END_HEADERS = 4;
export const FLAG_PADDED = 8;

export const SETTING_INITIAL_WINDOW_SIZE = 4;
const SETTING_ENABLE_PUSH = 2;

/** The one stream of a connection. */
export const STREAM = 1;

export function frameHeader(type: number, flags: number, stream: number, length: number): Buffer {
  const header = Buffer.allocUnsafe(FRAME_HEADER_BYTES);
  header.writeUIntBE(length, 0, 3);
  header.writeUInt8(type, 3);
  header.writeUInt8(flags, 4);
  header.writeUInt32BE(stream, 5);
  return header;
}

export function frame(type: number, flags: number, stream: number, payload: Buffer): Buffer {
  return Buffer.concat([frameHeader(type, flags, stream, payload.length), payload]);
}

export function windowUpdate(stream: number, increment: number): Buffer {
  const payload = Buffer.allocUnsafe(4);
  payload.writeUInt32BE(increment);
  return frame(FRAME.windowUpdate, 0, stream, payload);
}

function setting(id: number, value: number): Buffer {
  const bytes = Buffer.allocUnsafe(6);
  bytes.writeUInt16BE(id, 0);
  bytes.writeUInt32BE(value, 2);
  return bytes;
}

function literal(index: number, value: string): Buffer {
  return Buffer.concat([Buffer.from([index, value.length]), Buffer.from(value)]);
}

function newField(name: string, value: string): Buffer {
  return Buffer.concat([Buffer.from([0, name.length]), Buffer.from(name), literal(0, value).subarray(1)]);
}

/** The bytes that open a connection. `window` is granted to each stream and to the connection. */
export function preface(window: number): Buffer {
  const settings = Buffer.concat([setting(SETTING_ENABLE_PUSH, 0), setting(SETTING_INITIAL_WINDOW_SIZE, window)]);
  return Buffer.concat([
    Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
    frame(FRAME.settings, 0, 0, settings),
    ...(window > DEFAULT_WINDOW ? [windowUpdate(0, window - DEFAULT_WINDOW)] : []),
  ]);
}

/** The header fields of a gRPC call; `metadata` has lower-case names and short values. */
export function callFields(path: string, authority: string, metadata: Readonly<Record<string, string>> = {}): Buffer {
  return Buffer.concat([
    // Static table: 3 is `:method: POST`, 6 is `:scheme: http`; 4 and 1 name `:path` and `:authority`.
    Buffer.from([0x83, 0x86]),
    literal(0x04, path),
    literal(0x01, authority),
    newField('content-type', 'application/grpc'),
    newField('te', 'trailers'),
    ...Object.entries(metadata).map(([name, value]) => newField(name, value)),
  ]);
}

/** The bytes that open a gRPC call on a new connection. `window` is granted to the stream and the connection. */
export function opening(
  path: string,
  authority: string,
  window: number,
  metadata?: Readonly<Record<string, string>>,
): Buffer {
  const fields = callFields(path, authority, metadata);
  return Buffer.concat([preface(window), frame(FRAME.headers, FLAG_END_HEADERS, STREAM, fields)]);
}
