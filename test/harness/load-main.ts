/**
 * Steady traffic from inside a network namespace: `node load-main.ts HOST HTTP_PORT HTTP2_PORT TCP_HOST TCP_PORT [LOOPS
 * [DELAY_MS]]`: HTTP/1.1 requests on new connections, LOOPS (default 2) at a time, each answered after DELAY_MS; HTTP/2
 * requests of one open session, and exchanges over one open TCP connection. Prints a `LoadReport` a line, every 200 ms.
 */
import { type IncomingMessage, request } from 'node:http';
import { connect as connectHttp2 } from 'node:http2';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

export interface LoadReport {
  /** Requests answered. */
  readonly answered: number;
  /** Failures, one line each. */
  readonly failures: readonly string[];
  /** Hashes of client certificates that the backend received, in order of appearance. */
  readonly certificates: readonly string[];
  /** Answers over the open TCP connection. */
  readonly ticks: number;
}

/** Delay between two requests of one loop: enough load to notice a gap, little enough to leave cores free. */
const PAUSE_MS = 20;
/** Only what is lost takes so long, also on a crowded machine. */
const TIMEOUT_MS = 20_000;

const [host = '', httpPort = '', http2Port = '', tcpHost = '', tcpPort = '', loops = '2', delayMs = '0'] =
  process.argv.slice(2);
const failures: string[] = [];
const certificates = new Set<string>();
let answered = 0;
let ticks = 0;

const failed = (where: string, error: unknown): void => {
  failures.push(`${new Date().toISOString()} ${where}: ${error instanceof Error ? error.message : String(error)}`);
};

/** The answer of an echo backend, which must have received the hash of a client certificate. */
function check(status: number | undefined, text: string): void {
  if (status !== 200) throw new Error(`${status}: ${text.slice(0, 200)}`);
  const hash = /Hash=([0-9a-f]{64})/.exec(text)?.[1];
  if (hash === undefined) throw new Error(`not over mutual TLS: ${text.slice(0, 200)}`);
  certificates.add(hash);
  answered++;
}

async function overNewConnection(): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const path = `/?delayMs=${delayMs}`;
  const options = { host, port: httpPort, path, agent: false, signal: AbortSignal.timeout(TIMEOUT_MS) } as const;
  const outgoing = request(options, resolve);
  outgoing.once('error', reject);
  outgoing.end();
  const incoming = await promise;
  let text = '';
  for await (const chunk of incoming.setEncoding('utf8')) text += String(chunk);
  check(incoming.statusCode, text);
}

const session = connectHttp2(`http://${host}:${http2Port}`);
session.on('error', (error) => failed('held session', error));
session.on('goaway', () => failed('held session', 'the other side wants it to end'));
session.on('close', () => failed('held session', 'closed'));

async function overHeldSession(): Promise<void> {
  const stream = session.request({ ':path': '/' });
  stream.setTimeout(TIMEOUT_MS, () => stream.destroy(new Error('no answer')));
  let status: number | undefined;
  stream.once('response', (headers) => {
    status = headers[':status'];
  });
  let text = '';
  for await (const chunk of stream.setEncoding('utf8')) text += String(chunk);
  check(status, text);
}

async function loop(where: string, once: () => Promise<void>): Promise<never> {
  for (;;) {
    await once().catch((error: unknown) => failed(where, error));
    await delay(PAUSE_MS);
  }
}

function hold(): void {
  const socket = connect(Number(tcpPort), tcpHost);
  let sentAt: number | undefined;
  const tick = setInterval(() => {
    if (sentAt !== undefined) {
      if (performance.now() - sentAt < TIMEOUT_MS) return;
      failed('held connection', 'no answer');
    }
    sentAt = performance.now();
    socket.write('tick\n');
  }, 1000);
  socket.on('data', () => {
    sentAt = undefined;
    ticks++;
  });
  socket.on('error', (error) => failed('held connection', error));
  socket.on('close', () => {
    clearInterval(tick);
    failed('held connection', 'closed');
  });
}

for (let i = 0; i < Number(loops); i++) void loop('new connection', overNewConnection);
void loop('held session', overHeldSession);
hold();
setInterval(() => {
  const report: LoadReport = { answered, failures: failures.slice(0, 20), certificates: [...certificates], ticks };
  process.stdout.write(`${JSON.stringify(report)}\n`);
}, 200);
process.once('SIGTERM', () => process.exit(0));
