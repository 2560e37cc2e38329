/**
 * Sends one DNS query, inside a network namespace: `node dns-query-main.ts JSON`, where JSON is a `DnsQuery`. Prints a
 * `DnsReply` as JSON; `{"error": …}` without an answer.
 */
import { createSocket } from 'node:dgram';
import { connect } from 'node:net';
import { decode, encode, type Packet, streamDecode, streamEncode } from 'dns-packet';
import type { DnsQuery, DnsReply } from './dns.ts';

/** Only the answer to a lost query takes so long, also on a crowded machine. */
const TIMEOUT_MS = 20_000;

const query = JSON.parse(process.argv[2] ?? '') as DnsQuery;
const packet: Packet = {
  type: 'query',
  id: 4711,
  flags: 256,
  questions: [{ type: query.type ?? (query.server.includes(':') ? 'AAAA' : 'A'), name: query.name }],
};

function end(reply: DnsReply | { readonly error: string }): void {
  process.stdout.write(`${JSON.stringify(reply)}\n`, () => process.exit(0));
}

function print(response: Packet & { readonly rcode?: string }): void {
  const addresses = (response.answers ?? []).flatMap((answer) =>
    answer.type === 'A' || answer.type === 'AAAA' ? [answer.data] : [],
  );
  end({ code: response.rcode ?? '', addresses });
}

setTimeout(() => end({ error: 'no answer' }), query.timeoutMs ?? TIMEOUT_MS);
if (query.protocol === 'tcp') {
  const socket = connect({ host: query.server, port: query.port ?? 53 });
  socket.on('error', (error) => end({ error: error.message }));
  let received = Buffer.alloc(0);
  socket.on('data', (chunk) => {
    received = Buffer.concat([received, chunk]);
    if (received.length >= 2 && received.length >= 2 + received.readUInt16BE()) print(streamDecode(received));
  });
  socket.write(streamEncode(packet));
} else {
  const socket = createSocket(query.server.includes(':') ? 'udp6' : 'udp4');
  socket.on('error', (error) => end({ error: error.message }));
  // A response from another address than that of the server is not one: a connected socket ignores it.
  socket.on('message', (message) => print(decode(message)));
  socket.bind(query.sourcePort ?? 0, () =>
    socket.connect(query.port ?? 53, query.server, () => socket.send(encode(packet))),
  );
}
