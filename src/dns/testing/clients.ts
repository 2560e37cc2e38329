/** Clients for tests of DNS: one message over UDP, several over TCP. */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { connect, isIPv6 } from 'node:net';
import type { OptAnswer } from 'dns-packet';
import type { Log } from '../../core/log.ts';
import { createFrameReader, framed } from '../wire/frames.ts';

export const silentLog: Log = { debug() {}, info() {}, warn() {}, error() {} };

/** An OPT record without options. */
export const opt = (udpPayloadSize: number, ednsVersion = 0): OptAnswer => ({
  type: 'OPT',
  name: '.',
  udpPayloadSize,
  ednsVersion,
  extendedRcode: 0,
  flags: 0,
  flag_do: false,
  options: [],
});

/** A log that keeps its lines, each with its level. */
export function recordingLog(): Log & { readonly lines: string[] } {
  const lines: string[] = [];
  const at = (level: string) => (text: string) => void lines.push(`${level}: ${text}`);
  return { lines, debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
}

/** Sends a message and resolves with the first that comes back. */
export async function askUdp(port: number, message: Buffer, host = '127.0.0.1'): Promise<Buffer> {
  const socket = createSocket(isIPv6(host) ? 'udp6' : 'udp4');
  try {
    const [answer] = (await Promise.all([
      once(socket, 'message', { signal: AbortSignal.timeout(60_000) }),
      new Promise((resolve) => socket.send(message, port, host, resolve)),
    ]).then(([received]) => received)) as [Buffer];
    return answer;
  } finally {
    socket.close();
  }
}

/** Sends messages on one connection and resolves with as many responses, in the order of arrival. */
export async function askTcp(port: number, messages: readonly Buffer[], host = '127.0.0.1'): Promise<Buffer[]> {
  const socket = connect(port, host);
  const reader = createFrameReader(65_535);
  const received: Buffer[] = [];
  try {
    for (const message of messages) socket.write(framed(message));
    for await (const chunk of socket) {
      received.push(...(reader.read(chunk as Buffer) ?? []));
      if (received.length >= messages.length) break;
    }
    return received;
  } finally {
    socket.destroy();
  }
}
