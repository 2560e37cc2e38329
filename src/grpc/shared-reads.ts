/**
 * Plain sockets that are read into one buffer of the process. By default Node allocates 64 KiB for each read, outside of V8's heap, until
 * the collector lets go of them: for a thousand proxies that answer a push that was a quarter of what the push cost.
 *
 * Node has this for sockets that it connects (`onread`), not for those that it accepts. So the handle of an accepted socket is given to a
 * socket of our own. `handle` and `_handle` are in no documentation; where they are not as expected, the accepted socket is read as usual.
 */
import { Socket, type SocketConstructorOpts } from 'node:net';

/** Most of one read. An acknowledgement has 100 bytes, over the state-of-the-world protocol 20 kB; a proxy that comes back brings 600 kB. */
const READ_BYTES = 256 * 1024;

/** To be called once, in the turn in which the connection was made. The bytes are valid until `take` returns. */
export type OnBytes = (take: (bytes: Buffer) => void) => void;

export interface SharedReads {
  readonly socket: Socket;
  /** Missing when the socket is to be read itself. */
  readonly onBytes?: OnBytes;
}

let buffer: Buffer | undefined;

/**
 * Takes over a socket that was accepted and not read from (`pauseOnConnect`). The accepted one has no connection any more; it closes, and is
 * counted by its server, as long as the one that is returned.
 */
export function readShared(accepted: Socket): SharedReads {
  const handle: unknown = Reflect.get(accepted, '_handle');
  if (!takesBuffer(handle)) return { socket: accepted.resume() };
  let take = (_bytes: Buffer): void => {};
  buffer ??= Buffer.allocUnsafeSlow(READ_BYTES);
  const onread = {
    buffer,
    callback: (length: number, bytes: Uint8Array) => {
      take(Buffer.from(bytes.buffer, bytes.byteOffset, length));
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

/** What `onread` needs of a handle. */
function takesBuffer(handle: unknown): boolean {
  return typeof handle === 'object' && handle !== null && typeof Reflect.get(handle, 'useUserBuffer') === 'function';
}
