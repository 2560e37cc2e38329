/** DNS over UDP. */
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { isIPv6 } from 'node:net';
import { toError } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import type { Handler } from './handler.ts';

/** Size of the receive buffer, for bursts of queries while the program is busy; the system may grant less. */
const RECEIVE_BUFFER_BYTES = 1024 * 1024;

export interface UdpServer {
  close(): Promise<void>;
}

/** Rejects with the system's error when the address cannot be bound. */
export async function startUdp(host: string, port: number, handler: Handler, log: Log): Promise<UdpServer> {
  const family = isIPv6(host) ? 6 : 4;
  const socket = createSocket({
    type: `udp${family}`,
    ipv6Only: family === 6 && host !== '::',
    // Addresses of clients need no resolution; Node's own takes a turn of the event loop for each response.
    lookup: (address, _options, done) => done(null, address, family),
  });
  const listening = once(socket, 'listening');
  try {
    socket.bind(port, host);
    await listening;
  } catch (error) {
    socket.close();
    throw error;
  }
  enlargeBuffer(socket);
  socket.on('error', (error) => log.warn(`DNS over UDP on ${host}: ${error.message}`));
  // A response that cannot be sent is lost, like any other packet: the client retries.
  const sent = (error: Error | null) => {
    if (error !== null) log.debug(`a DNS response over UDP was not sent: ${error.message}`);
  };
  let open = true;
  socket.on('message', (bytes, { address, port: from }) => {
    const send = (response: Buffer) => {
      if (open) socket.send(response, from, address, sent);
    };
    const answer = handler.handle(bytes, { protocol: 'udp', address, port: from, identity: undefined });
    if (answer === undefined) return;
    if (Buffer.isBuffer(answer)) send(answer);
    else void answer.then(send);
  });
  return {
    close: () => {
      open = false;
      return new Promise((resolve) => socket.close(() => resolve()));
    },
  };
}

function enlargeBuffer(socket: Socket): void {
  try {
    socket.setRecvBufferSize(RECEIVE_BUFFER_BYTES);
  } catch (error) {
    // Some sandboxes do not allow it. The default is enough for usual loads.
    toError(error);
  }
}
