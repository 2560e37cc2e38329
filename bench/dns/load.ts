/** The clients of the bench, in a process of its own: queries over UDP at a rate, or as fast as they are answered. */
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { encode } from 'dns-packet';
import { sendAtRate } from '../client/pace.ts';
import type { LoadCommand, LoadResult } from './messages.ts';
import { nameOf } from './names.ts';

const SOCKETS = 8;
/** Responses that arrive later are lost, ms. */
const PATIENCE_MS = 1000;
/** The maximum number of queries sent at once. */
const MAX_BURST = 100;

async function run({ port, names, seconds, rate, inFlight }: LoadCommand): Promise<LoadResult> {
  const queries = Array.from({ length: names }, (_, index) =>
    encode({ type: 'query', flags: 0x100, questions: [{ name: nameOf(index), type: index % 2 === 0 ? 'A' : 'AAAA' }] }),
  );
  const sentAt = Array.from({ length: SOCKETS }, () => new Float64Array(0x10000));
  const ids = new Array<number>(SOCKETS).fill(0);
  const times: number[] = [];
  let [next, sent, wrong, open] = [0, 0, 0, true];
  const started = performance.now();
  const ends = started + seconds * 1000;
  const send = (socket: Socket, lane: number): void => {
    const query = queries[next++ % names] ?? Buffer.alloc(0);
    const id = (ids[lane] ?? 0) & 0xffff;
    ids[lane] = id + 1;
    query.writeUInt16BE(id, 0);
    const at = sentAt[lane];
    if (at !== undefined) at[id] = performance.now();
    sent++;
    socket.send(Buffer.from(query), () => undefined);
  };
  const sockets = await Promise.all(
    Array.from({ length: SOCKETS }, async (_, lane) => {
      const socket = createSocket('udp4');
      socket.connect(port, '127.0.0.1');
      await once(socket, 'connect');
      socket.setRecvBufferSize(4 * 1024 * 1024);
      socket.on('message', (bytes) => {
        const id = bytes.readUInt16BE(0);
        const at = sentAt[lane]?.[id] ?? 0;
        // The code is NOERROR for every name: those with an even number have an address, the others have no IPv6
        // address.
        if (at === 0 || (bytes.readUInt16BE(2) & 0xf) !== 0) wrong++;
        else times.push(performance.now() - at);
        const lanes = sentAt[lane];
        if (lanes !== undefined) lanes[id] = 0;
        if (open && rate === undefined) send(socket, lane);
      });
      return socket;
    }),
  );
  const lane = (index: number): void => {
    const socket = sockets[index % SOCKETS];
    if (socket !== undefined) send(socket, index % SOCKETS);
  };
  if (rate === undefined) {
    for (let index = 0; index < inFlight; index++) lane(index);
    await new Promise((resolve) => setTimeout(resolve, ends - performance.now()));
  } else await sendAtRate({ rate, until: ends, maxBurst: MAX_BURST }, () => lane(sent));
  open = false;
  const lasted = (performance.now() - started) / 1000;
  const answered = times.length;
  await new Promise((resolve) => setTimeout(resolve, PATIENCE_MS));
  for (const socket of sockets) socket.close();
  const sorted = times.sort((a, b) => a - b);
  const quantile = (q: number): number => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? 0;
  return {
    perSecond: answered / lasted,
    lost: sent - times.length - wrong,
    wrong,
    p50: quantile(0.5),
    p99: quantile(0.99),
    max: sorted.at(-1) ?? 0,
  };
}

process.on('message', (command: LoadCommand) => {
  void run(command).then((result) => process.send?.(result));
});
process.on('disconnect', () => process.exit(0));
