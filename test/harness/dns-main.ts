/**
 * A DNS server in a process of its own, so that it can live in a network namespace: `node dns-main.ts JSON`, where JSON
 * is a `DnsServerSetup`. Answers over UDP and TCP at every address of the setup, prints `ready` when it listens, and
 * `<protocol> <name> <type>` for each query. Names that it does not know do not exist (NXDOMAIN).
 */
import { createSocket } from 'node:dgram';
import { createServer } from 'node:net';
import {
  type Answer,
  AUTHORITATIVE_ANSWER,
  decode,
  encode,
  type Packet,
  streamEncode,
  TRUNCATED_RESPONSE,
} from 'dns-packet';

export interface DnsServerSetup {
  readonly addresses: readonly string[];
  readonly port: number;
  /** IPv4 and IPv6 addresses by name, lower case. */
  readonly names: Readonly<Record<string, readonly string[]>>;
  /** How long a query waits for its answer; default 0. */
  readonly delayMs?: number;
}

const NXDOMAIN = 3;
/** What fits into a UDP packet without EDNS (RFC 1035, 4.2.1). */
const MAX_UDP = 512;

const setup = JSON.parse(process.argv[2] ?? '') as DnsServerSetup;

function answerTo(query: Packet): Packet {
  const [question] = query.questions ?? [];
  const name = question?.name.toLowerCase() ?? '';
  const ips = setup.names[name];
  const answers = (ips ?? [])
    .map((data): Answer => ({ type: data.includes(':') ? 'AAAA' : 'A', name, ttl: 5, data }))
    .filter(({ type }) => type === question?.type);
  return {
    type: 'response',
    id: query.id ?? 0,
    // The lowest four bits are the response code (RFC 1035, 4.1.1).
    flags: AUTHORITATIVE_ANSWER | (ips === undefined ? NXDOMAIN : 0),
    questions: query.questions ?? [],
    answers,
  };
}

function answer(protocol: string, message: Buffer, send: (response: Packet) => void): void {
  const query = decode(message);
  const [question] = query.questions ?? [];
  process.stdout.write(`${protocol} ${question?.name} ${question?.type}\n`);
  setTimeout(() => send(answerTo(query)), setup.delayMs ?? 0);
}

for (const address of setup.addresses) {
  const udp = createSocket(address.includes(':') ? 'udp6' : 'udp4');
  udp.on('message', (message, from) =>
    answer('udp', message, (response) => {
      const whole = encode(response);
      const truncated = { ...response, answers: [], flags: (response.flags ?? 0) | TRUNCATED_RESPONSE };
      udp.send(whole.length > MAX_UDP ? encode(truncated) : whole, from.port, from.address);
    }),
  );
  await new Promise<void>((resolve) => udp.bind(setup.port, address, resolve));
  const tcp = createServer((socket) => {
    let received = Buffer.alloc(0);
    socket.on('error', () => socket.destroy());
    socket.on('data', (chunk) => {
      received = Buffer.concat([received, chunk]);
      // Each message follows its length in two bytes (RFC 1035, 4.2.2).
      while (received.length >= 2 && received.length >= 2 + received.readUInt16BE()) {
        const end = 2 + received.readUInt16BE();
        answer('tcp', received.subarray(2, end), (response) => socket.write(streamEncode(response)));
        received = received.subarray(end);
      }
    });
  });
  await new Promise<void>((resolve) => tcp.listen(setup.port, address, resolve));
}
process.stdout.write('ready\n');
process.once('SIGTERM', () => process.exit(0));
