/**
 * Frames of HTTP/2 as bytes.
 * Source: RFC 9113 sections 4 (frame format), 6 (frame definitions), 7 (error codes)
 */

export const FRAME_HEADER_BYTES = 9;

/** Largest payload of a frame. The default of both sides, which the server does not change. */
export const FRAME_PAYLOAD_BYTES = 16_384;

export const FRAME = {
  data: 0,
  headers: 1,
  priority: 2,
  rstStream: 3,
  settings: 4,
  pushPromise: 5,
  ping: 6,
  goaway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const;

export const FLAG_END_STREAM = 0x1;
export const FLAG_ACK = 0x1;
export const FLAG_END_HEADERS = 0x4;
export const FLAG_PADDED = 0x8;
export const FLAG_PRIORITY = 0x20;

export const ERROR = {
  none: 0,
  protocol: 1,
  internal: 2,
  flowControl: 3,
  streamClosed: 5,
  frameSize: 6,
  refusedStream: 7,
  cancel: 8,
  compression: 9,
  enhanceYourCalm: 11,
} as const;
export type ErrorCode = (typeof ERROR)[keyof typeof ERROR];

export const SETTING = {
  headerTableSize: 1,
  enablePush: 2,
  maxConcurrentStreams: 3,
  initialWindowSize: 4,
  maxFrameSize: 5,
  maxHeaderListSize: 6,
} as const;

/** The first bytes of a client. */
export const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1');

/** Window of a connection, and of its streams until SETTINGS change it. */
export const DEFAULT_WINDOW_BYTES = 65_535;
export const MAX_WINDOW_BYTES = 2 ** 31 - 1;

/** A protocol violation of the peer. On stream 0 it ends the connection, on another only that stream. */
export class Http2Error extends Error {
  readonly code: ErrorCode;
  readonly stream: number;

  constructor(code: ErrorCode, message: string, stream = 0) {
    super(message);
    this.code = code;
    this.stream = stream;
  }
}

/** Writes a frame's header at `offset`. */
export function writeFrameHeader(
  target: Buffer,
  offset: number,
  type: number,
  flags: number,
  stream: number,
  length: number,
): void {
  target[offset] = length >>> 16;
  target[offset + 1] = length >>> 8;
  target[offset + 2] = length;
  target[offset + 3] = type;
  target[offset + 4] = flags;
  target[offset + 5] = stream >>> 24;
  target[offset + 6] = stream >>> 16;
  target[offset + 7] = stream >>> 8;
  target[offset + 8] = stream;
}

/** A whole frame with a copy of the payload. */
export function frame(type: number, flags: number, stream: number, payload: Uint8Array): Buffer {
  const bytes = Buffer.allocUnsafe(FRAME_HEADER_BYTES + payload.length);
  writeFrameHeader(bytes, 0, type, flags, stream, payload.length);
  bytes.set(payload, FRAME_HEADER_BYTES);
  return bytes;
}

export const SETTINGS_ACK = frame(FRAME.settings, FLAG_ACK, 0, Buffer.alloc(0));

/** A SETTINGS frame. */
export function settingsFrame(settings: readonly (readonly [id: number, value: number])[]): Buffer {
  const payload = Buffer.alloc(6 * settings.length);
  settings.forEach(([id, value], index) => {
    payload.writeUInt16BE(id, 6 * index);
    payload.writeUInt32BE(value, 6 * index + 2);
  });
  return frame(FRAME.settings, 0, 0, payload);
}

function numberFrame(type: number, stream: number, value: number): Buffer {
  const bytes = Buffer.allocUnsafe(FRAME_HEADER_BYTES + 4);
  writeFrameHeader(bytes, 0, type, 0, stream, 4);
  bytes.writeUInt32BE(value, FRAME_HEADER_BYTES);
  return bytes;
}

export function windowUpdate(stream: number, bytes: number): Buffer {
  return numberFrame(FRAME.windowUpdate, stream, bytes);
}

export function rstStream(stream: number, code: ErrorCode): Buffer {
  return numberFrame(FRAME.rstStream, stream, code);
}

/** @param lastStream no stream above it was or will be processed */
export function goaway(lastStream: number, code: ErrorCode, debug: string): Buffer {
  const text = Buffer.from(debug);
  const payload = Buffer.alloc(8 + text.length);
  payload.writeUInt32BE(lastStream, 0);
  payload.writeUInt32BE(code, 4);
  payload.set(text, 8);
  return frame(FRAME.goaway, 0, 0, payload);
}
