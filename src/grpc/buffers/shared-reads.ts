/**
 * Reads all sockets into one buffer of the process. By default Node allocates 64 KiB outside of V8's heap for each
 * read, until it is garbage-collected: when a thousand proxies acknowledge a push, that was a quarter of the cost of
 * the push. On encrypted sockets it allocates for each record of 16 KiB: when proxies reconnect with 600 kB each, that
 * was a fifth of the cost of TLS.
 *
 * Node supports this for sockets that it connects (`onread`), not for those that it accepts. So the handle of an
 * accepted socket is moved to a new socket; on an encrypted one, whose handle refers to its socket, the properties are
 * set that `onread` would have set. Their names are not documented: if something is not as expected, the socket is read
 * in the usual way.
 */
import { Socket, type SocketConstructorOpts } from 'node:net';
import type { TLSSocket } from 'node:tls';

/**
 * Maximum size of one read. An acknowledgement has 100 bytes, or 20 kB with state of the world; a reconnect has 600 kB.
 */
const READ_BYTES = 256 * 1024;

/** Content of the largest TLS record: OpenSSL returns one at a time. */
const RECORD_BYTES = 16 * 1024;

/**
 * To be called once, in the turn of the event loop in which the connection was made. Bytes are valid until `take`
 * returns.
 */
export type OnBytes = (take: (bytes: Buffer) => void) => void;

export interface SharedReads {
  readonly socket: Socket;
  /** Undefined when the socket is to be read in the usual way. */
  readonly onBytes?: OnBytes;
}

/** Allocated for the first socket. */
let shared: Buffer | undefined;

/**
 * Moves the handle of an accepted socket that was not read from (`pauseOnConnect`) to a new socket. The accepted socket
 * has no connection afterwards; its server counts it until the new one closes.
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
 * Reads an encrypted socket into the shared buffer, right after its handshake (`secureConnection`). The socket stays
 * the same; its bytes do not pass through its stream.
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
  // The end of the connection still arrives through its stream.
  socket.resume();
  return {
    socket,
    onBytes: (taker) => {
      take = taker;
    },
  };
}

/** The symbol of a property that `onread` would have set; undefined if the property has a value or does not exist. */
function slotOf(socket: Socket, name: string): symbol | undefined {
  const slot = Object.getOwnPropertySymbols(socket).find(({ description }) => description === name);
  return slot !== undefined && Reflect.get(socket, slot) === null ? slot : undefined;
}

interface BufferedHandle {
  useUserBuffer(buffer: Uint8Array): void;
}

/** True when the handle has what `onread` needs. */
function takesBuffer(handle: unknown): handle is BufferedHandle {
  return typeof handle === 'object' && handle !== null && typeof Reflect.get(handle, 'useUserBuffer') === 'function';
}
