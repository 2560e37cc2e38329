/** One query over UDP, from a socket of its own: its source port is as random as its id (RFC 5452 section 9.2). */
import { randomInt } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { isIPv6 } from 'node:net';
import { CtlError } from '../../core/errors.ts';
import { encodeRequest, type Request, readResponse, type UpstreamResponse } from './request.ts';

export interface UdpExchangeOptions {
  readonly host: string;
  readonly port: number;
  readonly timeoutMs: number;
  /** Local ports of the queries in flight, with their ids. */
  readonly sent: Map<number, number>;
}

/**
 * Messages that are not a response to this query are ignored, and do not end the wait. The socket is connected, so that
 * the system drops packets of other senders and reports a closed port.
 */
export function exchangeUdp(request: Request, options: UdpExchangeOptions): Promise<UpstreamResponse> {
  const { host, port, timeoutMs, sent } = options;
  const id = randomInt(0x10000);
  const socket = createSocket(isIPv6(host) ? 'udp6' : 'udp4');
  return new Promise((resolve, reject) => {
    let local: number | undefined;
    let ended = false;
    const end = (): void => {
      if (ended) return;
      ended = true;
      clearTimeout(timer);
      if (local !== undefined) sent.delete(local);
      socket.removeAllListeners('message');
      // After the end of the exchange, errors are ignored.
      socket.removeAllListeners('error').on('error', () => undefined);
      socket.close();
    };
    const fail = (reason: string): void => {
      end();
      reject(new CtlError('unavailable', `${host}: ${reason}`));
    };
    const timer = setTimeout(() => fail(`no response within ${timeoutMs} ms`), timeoutMs);
    socket.on('error', (error) => fail(error.message));
    socket.on('message', (message) => {
      const response = readResponse(message, request, id);
      if (response === undefined) return;
      end();
      resolve(response);
    });
    // Called with an error if there is no route to the address, also after the end of the exchange.
    socket.connect(port, host, (error?: Error) => {
      if (ended) return;
      if (error !== undefined) {
        fail(error.message);
        return;
      }
      local = socket.address().port;
      sent.set(local, id);
      socket.send(encodeRequest(request, id), (error) => {
        if (error !== null) fail(error.message);
      });
    });
  });
}
