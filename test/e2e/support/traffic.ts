/** Requests of tests and what came of them. */
import { connect } from 'node:tls';
import { type EchoReply, eventually, exchange, type RequestOptions, request } from '../../harness/index.ts';

/** A request's status and, where an echo backend answered, what it saw. */
export interface Outcome {
  readonly status: number;
  /** Name of the backend that answered, or undefined when Envoy did itself. */
  readonly by: string | undefined;
  readonly reply: EchoReply | undefined;
  readonly location: string | undefined;
}

export async function call(options: RequestOptions): Promise<Outcome> {
  const { status, headers, body } = await request(options);
  const by = headers['x-echo'];
  const echoed = typeof by === 'string';
  return {
    status,
    by: echoed ? by : undefined,
    reply: echoed ? (JSON.parse(body) as EchoReply) : undefined,
    location: headers.location,
  };
}

/** Who answers `count` requests, one after the other: name or status → how often. */
export async function tally(options: RequestOptions, count: number): Promise<Readonly<Record<string, number>>> {
  const seen: Record<string, number> = {};
  for (let i = 0; i < count; i++) {
    const { by, status } = await call(options);
    const key = status === 200 && by !== undefined ? by : String(status);
    seen[key] = (seen[key] ?? 0) + 1;
  }
  return seen;
}

/** The backend's name that a TCP echo greets with. */
export async function greeting(address: string, port: number): Promise<string> {
  const text = await exchange({ address, port, send: 'ping', until: 'ping' });
  return text.slice(0, text.indexOf('\n'));
}

/** The first line that comes over TLS when `serverName` is asked for; rejects when the connection is refused or cut. */
export function tlsGreeting(address: string, port: number, serverName: string): Promise<string> {
  return new Promise((resolve, reject) => {
    // Who answers is what is asked here; whether to trust it is not.
    const socket = connect({ host: address, port, servername: serverName, rejectUnauthorized: false });
    let text = '';
    socket.setTimeout(5_000, () => socket.destroy(new Error('no greeting within 5 s')));
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString();
      if (!text.includes('\n')) return;
      resolve(text.slice(0, text.indexOf('\n')));
      socket.destroy();
    });
    socket.once('error', reject);
    socket.once('close', () => reject(new Error('closed without a greeting')));
  });
}

/** Far above what an edit takes to arrive, also where other tests keep the cores busy. */
const PATIENCE_MS = 30_000;

/** Waits until `check` holds for every one of `items`: what an edit brings, it brings to all. */
export async function eventuallyAll<T>(items: readonly T[], check: (item: T) => Promise<void>): Promise<void> {
  await Promise.all(items.map((item) => eventually(() => check(item), { timeoutMs: PATIENCE_MS })));
}
