/**
 * Sockets that are read into one buffer of the process. By default Node allocates 64 KiB for each read, outside of V8's
 * heap, until the collector lets go of them: for a thousand proxies that answer a push that was a quarter of what the
 * push cost. On encrypted ones it allocates for each record of 16 KiB: for proxies that come back with 600 kB each that
 * was a fifth of what TLS cost.
 *
 * Node has this for sockets that it connects (`onread`), not for those that it accepts. So the handle of an accepted
 * socket is given to a socket of our own; an encrypted one, whose handle knows its socket, is told what `onread` would
 * have told it. None of the names for that is in the documentation; where something is not as expected, the socket is
 * read as usual.
 */
import { Socket, type SocketConstructorOpts } from 'node:net';
import type { TLSSocket } from 'node:tls';

/**
 * Most of one read. An acknowledgement has 100 bytes, over the state-of-the-world protocol 20 kB; a proxy that comes
 * back brings 600 kB.
 */
const READ_BYTES = 256 * 1024;

/** Content of the largest TLS record: OpenSSL gives one at a time. */
const RECORD_BYTES = 16 * 1024;

/** To be called once, in the turn in which the connection was made. The bytes are valid until `take` returns. */
export type OnBytes = (take: (bytes: Buffer) => void) => void;

export interface SharedReads {
  readonly socket: Socket;
  /** Missing when the socket is to be read itself. */
  readonly onBytes?: OnBytes;
}

/** Made when the first socket needs it. */
let shared: Buffer | undefined;

/**
 * Takes over a socket that was accepted and not read from (`pauseOnConnect`). The accepted one has no connection any
 * more; it closes, and is counted by its server, as long as the one that is returned.
 */
export function readShared(accepted: Socket): SharedReads {
  const handle: unknown = Reflect.get(accepted, '_handle');
  if (!takesBuffer(handle)) return { socket: accepted.resume() };
  let take = (_bytes: Buffer): void => {};
  shared ??= Buffer.allocUnsafeSlow(READ_BYTES);
  const buffer = shared;
  const onread = {
    buffer,
    callback: (length: number) => {
      take(buffer.subarray(0, length));
      return true;
    },
  };
  const options: Omit<SocketConstructorOpts, 'handle'> & { readonly handle: unknown } = { handle, onread };
  const socket = new Socket(options as SocketConstructorOpts);
  Reflect.set(accepted, '_handle', null);
  socket.once('close', () => accepted.destroy());
  return {
    socket,
    onBytes: (taker) => {
      take = taker;
    },
  };
}

let recordBuffer: Buffer | undefined;

/**
 * Has an encrypted socket read so whose handshake was just done (`secureConnection`). It stays the socket that it is;
 * what it reads does not pass through its stream.
 */
export function readSharedSecured(socket: TLSSocket): SharedReads {
  const handle: unknown = Reflect.get(socket, '_handle');
  const bufferSlot = slotOf(socket, 'kBuffer');
  const callbackSlot = slotOf(socket, 'kBufferCb');
  if (!takesBuffer(handle) || bufferSlot === undefined || callbackSlot === undefined || socket.readableLength > 0)
    return { socket };
  let take = (_bytes: Buffer): void => {};
  recordBuffer ??= Buffer.allocUnsafeSlow(RECORD_BYTES);
  const buffer = recordBuffer;
  Reflect.set(socket, bufferSlot, buffer);
  Reflect.set(socket, callbackSlot, (length: number) => {
    take(buffer.subarray(0, length));
    return true;
  });
  handle.useUserBuffer(buffer);
  // For its end, which comes through its stream as ever.
  socket.resume();
  return {
    socket,
    onBytes: (taker) => {
      take = taker;
    },
  };
}

/** Where a socket keeps what `onread` would have told it: empty, because nothing did. */
function slotOf(socket: Socket, name: string): symbol | undefined {
  const slot = Object.getOwnPropertySymbols(socket).find(({ description }) => description === name);
  return slot !== undefined && Reflect.get(socket, slot) === null ? slot : undefined;
}

interface BufferedHandle {
  useUserBuffer(buffer: Uint8Array): void;
}

/** What `onread` needs of a handle. */
function takesBuffer(handle: unknown): handle is BufferedHandle {
  return typeof handle === 'object' && handle !== null && typeof Reflect.get(handle, 'useUserBuffer') === 'function';
}
