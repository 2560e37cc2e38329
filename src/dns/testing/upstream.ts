/** A DNS server that answers as a test says, over UDP and TCP on one port of 127.0.0.1. */
import { createSocket, type Socket as UdpSocket } from 'node:dgram';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { type Answer, type DecodedPacket, decode, encode } from 'dns-packet';
import { createFrameReader, framed } from '../wire/frames.ts';

export interface UpstreamQuery {
  readonly protocol: 'udp' | 'tcp';
  readonly packet: DecodedPacket;
  readonly name: string;
  /** The client's source port. */
  readonly port: number;
  /** Sends a response: the answers, and what is different from a usual response. */
  reply(answers: readonly Answer[], changes?: ReplyChanges): void;
  send(bytes: Buffer): void;
}

export interface ReplyChanges {
  readonly id?: number;
  readonly name?: string;
  /** Added to QR, RD and RA: TC, a response code. */
  readonly flags?: number;
  readonly authorities?: readonly Answer[];
  readonly additionals?: readonly Answer[];
}

export interface TestUpstream {
  readonly port: number;
  readonly queries: UpstreamQuery[];
}

export const a = (name: string, data: string, ttl = 60): Answer => ({ type: 'A', name, data, ttl });

export const aaaa = (name: string, data: string, ttl = 60): Answer => ({ type: 'AAAA', name, data, ttl });

export const soa = (name: string, ttl: number, minimum: number): Answer => ({
  type: 'SOA',
  name,
  ttl,
  data: { mname: `ns.${name}`, rname: `mail.${name}`, serial: 1, refresh: 1, retry: 1, expire: 1, minimum },
});

interface Owner {
  after(hook: () => Promise<void> | void): void;
}

export async function startUpstream(
  owner: Owner,
  answer: (query: UpstreamQuery) => void,
  options: { readonly tcp?: boolean } = {},
): Promise<TestUpstream> {
  const queries: UpstreamQuery[] = [];
  const receive = (bytes: Buffer, from: Pick<UpstreamQuery, 'protocol' | 'port' | 'send'>): void => {
    const packet = decode(bytes);
    const [question = { name: '', type: 'A' }] = packet.questions ?? [];
    const query: UpstreamQuery = {
      ...from,
      packet,
      name: question.name,
      reply: (answers, { id, name, flags = 0, authorities = [], additionals = [] } = {}) =>
        from.send(
          encode({
            type: 'response',
            id: id ?? packet.id,
            flags: 0x180 | flags,
            questions: [{ ...question, name: name ?? question.name }],
            answers: [...answers],
            authorities: [...authorities],
            additionals: [...additionals],
          }),
        ),
    };
    queries.push(query);
    answer(query);
  };
  const open = new Set<Socket>();
  const tcp = createServer((socket) => {
    open.add(socket);
    const reader = createFrameReader(65_535);
    socket.on('error', () => socket.destroy());
    socket.on('data', (chunk: Buffer) => {
      for (const message of reader.read(chunk) ?? [])
        receive(message, {
          protocol: 'tcp',
          port: socket.remotePort ?? 0,
          send: (response) => void socket.write(framed(response)),
        });
    });
  });
  const [udp, port] = await bindBoth(tcp);
  udp.on('message', (bytes, { port: from, address }) =>
    receive(bytes, { protocol: 'udp', port: from, send: (response) => udp.send(response, from, address) }),
  );
  if (options.tcp === false) tcp.close();
  owner.after(async () => {
    for (const socket of open) socket.destroy();
    await new Promise<void>((resolve) => udp.close(() => resolve()));
    if (tcp.listening) await new Promise<void>((resolve) => tcp.close(() => resolve()));
  });
  return { port, queries };
}

/** Binds one port for both; a port that is free for TCP may be taken for UDP. */
async function bindBoth(tcp: Server): Promise<[udp: UdpSocket, port: number]> {
  for (;;) {
    tcp.listen(0, '127.0.0.1');
    await once(tcp, 'listening');
    const { port } = tcp.address() as AddressInfo;
    const udp = createSocket('udp4');
    try {
      const listening = once(udp, 'listening');
      udp.bind(port, '127.0.0.1');
      await listening;
      return [udp, port];
    } catch {
      udp.close();
      await new Promise((resolve) => tcp.close(resolve));
    }
  }
}
