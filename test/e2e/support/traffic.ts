/** Requests of tests and their outcomes. */
import { connect } from 'node:tls';
import { type EchoReply, eventually, exchange, type RequestOptions, request } from '../../harness/index.ts';

/** The status of a request and, if an echo backend answered, the request that it saw. */
export interface Outcome {
  readonly status: number;
  /** Name of the backend that answered; undefined when Envoy answered itself. */
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

/** The answers to `count` requests, one after the other: name of the backend or status → how often. */
export async function tally(options: RequestOptions, count: number): Promise<Readonly<Record<string, number>>> {
  const seen: Record<string, number> = {};
  for (let i = 0; i < count; i++) {
    const { by, status } = await call(options);
    const key = status === 200 && by !== undefined ? by : String(status);
    seen[key] = (seen[key] ?? 0) + 1;
  }
  return seen;
}

/**
 * The backend's name that a TCP echo greets with.
 * @param from the client's own address
 */
export async function greeting(address: string, port: number, from?: string): Promise<string> {
  const local = from !== undefined && { localAddress: from };
  const text = await exchange({ address, port, ...local, send: 'ping', until: 'ping' });
  return text.slice(0, text.indexOf('\n'));
}

/** The first line over TLS with this server name; rejects when the connection is refused or closed. */
export function tlsGreeting(address: string, port: number, serverName: string): Promise<string> {
  return new Promise((resolve, reject) => {
    // The certificate is not verified: only the answering server matters.
    const socket = connect({ host: address, port, servername: serverName, rejectUnauthorized: false });
    let text = '';
    socket.setTimeout(20_000, () => socket.destroy(new Error('no greeting within 20 s')));
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

/** Far longer than an edit takes to arrive, even when other tests use the cores. */
const PATIENCE_MS = 30_000;

/** Waits until `check` succeeds for every one of `items`. */
export async function eventuallyAll<T>(items: readonly T[], check: (item: T) => Promise<void>): Promise<void> {
  await Promise.all(items.map((item) => eventually(() => check(item), { timeoutMs: PATIENCE_MS })));
}
