/**
 * Steady DNS queries over UDP from inside a network namespace: `node dns-load-main.ts JSON`, where JSON is a
 * `DnsLoadSetup`. Prints a `DnsLoadReport` a line, every 100 ms.
 */
import { createSocket } from 'node:dgram';
import { setTimeout as delay } from 'node:timers/promises';
import { decode, encode } from 'dns-packet';

export interface DnsLoadSetup {
  readonly server: string;
  /** Names with an address, asked one after the other. */
  readonly names: readonly string[];
  /** Queries at once. */
  readonly loops: number;
}

export interface DnsLoadReport {
  readonly answered: number;
  /** Queries without an address, one line each. */
  readonly failures: readonly string[];
}

/** Only the answer to a lost query takes so long, also on a crowded machine. */
const TIMEOUT_MS = 20_000;
const PAUSE_MS = 5;

const { server, names, loops } = JSON.parse(process.argv[2] ?? '') as DnsLoadSetup;
const failures: string[] = [];
let answered = 0;
let next = 0;

async function loop(id: number): Promise<never> {
  const socket = createSocket(server.includes(':') ? 'udp6' : 'udp4');
  await new Promise<void>((resolve) => socket.connect(53, server, resolve));
  let query = id;
  for (;;) {
    const name = names[next++ % names.length] ?? '';
    query = (query + loops) % 0x10000;
    const { promise, resolve } = Promise.withResolvers<string | undefined>();
    const timer = setTimeout(() => resolve('no answer'), TIMEOUT_MS);
    socket.on('message', (message) => {
      const response = decode(message) as ReturnType<typeof decode> & { readonly rcode?: string };
      if (response.id === query) resolve(response.answers?.length ? undefined : `answer ${response.rcode}`);
    });
    socket.on('error', (error) => resolve(error.message));
    const questions = [{ type: 'A' as const, name }];
    socket.send(encode({ type: 'query', id: query, flags: 256, questions }));
    const failure = await promise;
    clearTimeout(timer);
    socket.removeAllListeners('message').removeAllListeners('error');
    if (failure === undefined) answered++;
    else failures.push(`${name}: ${failure}`);
    await delay(PAUSE_MS);
  }
}

for (let id = 0; id < loops; id++) void loop(id);
setInterval(() => process.stdout.write(`${JSON.stringify({ answered, failures } satisfies DnsLoadReport)}\n`), 100);
process.once('SIGTERM', () => process.exit(0));
