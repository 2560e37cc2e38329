/**
 * The outcome of a call between two workloads, in one word or two: `200 mtls` (the application saw exactly the
 * identities of both sides), `200 plain` (it saw none), `000/56` (status and exit code of curl), `ok` and `cut` for
 * TCP.
 */
import assert from 'node:assert/strict';
import { type EchoReply, eventually } from '../../harness/index.ts';
import { PORTS, type PortName, UNBOUND_PORT, type Workload } from './identity-world.ts';

/** A port of the server: a named port of its service, or the one that no service names. */
export type Target = PortName | 'unbound';

export interface Row {
  readonly from: Workload;
  readonly to: Workload;
  readonly port: Target;
  readonly expected: string;
}

/** A TCP exchange: sends a word and prints the answer once it contains the word. */
const TALK = `
const [host, port, first, word] = process.argv.slice(1);
const socket = require('node:net').connect(Number(port), host);
let text = '';
socket.setTimeout(20000, () => socket.destroy());
if (first === 'client') socket.on('connect', () => socket.write(word));
socket.on('data', (chunk) => {
  if (text === '' && first === 'server') socket.write(word);
  text += chunk;
  if (text.endsWith(word)) { process.stdout.write('ok ' + text.split('\\n')[0]); socket.destroy(); }
});
socket.on('error', () => socket.destroy());
socket.on('close', () => { if (!text.endsWith(word)) process.stdout.write('cut'); });
`;

/** Applications behind a proxy call the service; others call the pod and its container port. */
export async function outcomeOf({ from, to, port }: Omit<Row, 'expected'>): Promise<string> {
  const isService = from.proxied && port !== 'unbound';
  const address = isService ? to.serviceAddress : to.netns.address;
  const number = port === 'unbound' ? UNBOUND_PORT : PORTS[port][isService ? 'service' : 'container'];
  if (port === 'tcp' || port === 'bytes') {
    const said = await talk(from, address, number, port === 'tcp' ? 'server' : 'client');
    return said === `ok ${to.id}` ? 'ok' : said;
  }
  const version = port === 'grpc' ? ['--http2-prior-knowledge', '-X', 'POST', '-H', 'te: trailers'] : [];
  const outcome = await httpOutcome(from, to, ['-m', '20', ...version, `http://${address}:${number}/`]);
  // HTTP/2 sends several messages: timing decides whether curl sees the refusal when sending (55) or receiving (56).
  return port === 'grpc' && outcome === '000/55' ? '000/56' : outcome;
}

/** Long enough for TLS detection: with a few bytes Envoy would wait for more. */
const WORD = 'what is said';

/** A TCP exchange: `ok` and who answers, or `cut`. */
export function talk(
  from: Workload,
  address: string,
  port: number,
  first: 'client' | 'server',
  word = WORD,
): Promise<string> {
  return from.netns.run(process.execPath, '-e', TALK, address, String(port), first, word);
}

/** The outcome of a request by curl with these arguments. */
export async function httpOutcome(from: Workload, to: Workload, args: readonly string[]): Promise<string> {
  // The exit code is part of the outcome, so it must not end the command.
  const script = 'curl -s "$@"; true';
  const text = await from.netns.run('sh', '-c', script, 'curl', '-w', '\n%{http_code} %{exitcode}', ...args);
  const [, body = '', status = '', exit = ''] = /^([\s\S]*)\n(\d+) (\d+)$/.exec(text) ?? [];
  if (status !== '200' || exit !== '0') return exit === '0' ? status : `${status}/${exit}`;
  const { name, headers } = JSON.parse(body) as EchoReply;
  if (name !== to.id) return `200 by ${name}`;
  return `200 ${seenIdentity(headers['x-forwarded-client-cert'], from, to)}`;
}

/** The identity of the caller, as the application sees it. */
function seenIdentity(header: string | readonly string[] | undefined, from: Workload, to: Workload): string {
  if (header === undefined) return 'plain';
  const [, by, uri] = /^By=([^;]+);Hash=[0-9a-f]{64};Subject="";URI=([^;,]+)$/.exec(String(header)) ?? [];
  return by === to.identity && uri === from.identity ? 'mtls' : `strange header ${String(header)}`;
}

/** Without policies: mutual TLS between proxies, plain text with all others. */
export function withoutPolicies({ from, to, port }: Omit<Row, 'expected'>): string {
  if (port === 'tcp' || port === 'bytes') return 'ok';
  return from.proxied && to.proxied && port !== 'unbound' ? '200 mtls' : '200 plain';
}

/** Outcomes, for a table that people read. */
export class OutcomeTable {
  /** Policy → server and port → outcome → clients. */
  readonly #seen = new Map<string, Map<string, Map<string, Set<string>>>>();

  /** Waits until all rows have their expected outcome at once, and records them. */
  async check(policy: string, rows: readonly Row[]): Promise<void> {
    await eventually(
      async () => {
        const seen = await Promise.all(rows.map(outcomeOf));
        const text = (row: Row, outcome: string) => `${row.from.id} → ${row.to.id} ${row.port}: ${outcome}`;
        assert.deepEqual(
          rows.map((row, index) => text(row, seen[index] ?? '')),
          rows.map((row) => text(row, row.expected)),
        );
      },
      { timeoutMs: 30_000, intervalMs: 100 },
    );
    for (const row of rows) this.#note(policy, row);
  }

  #note(policy: string, { from, to, port, expected }: Row): void {
    const servers = getOrAdd(this.#seen, policy, () => new Map());
    const outcomes = getOrAdd(servers, `${side(to)} ${port}`, () => new Map<string, Set<string>>());
    getOrAdd(outcomes, expected, () => new Set<string>()).add(side(from));
  }

  print(): void {
    const lines = [...this.#seen].flatMap(([policy, servers]) => [
      policy,
      ...[...servers].map(([server, outcomes]) => {
        const cells = [...outcomes].map(([outcome, clients]) => `${outcome} ← ${[...clients].join(', ')}`);
        return `  ${server.padEnd(24)} ${cells.join('  |  ')}`;
      }),
    ]);
    process.stdout.write(`Outcomes (* has no proxy):\n${lines.join('\n')}\n`);
  }
}

function getOrAdd<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  const known = map.get(key);
  if (known !== undefined) return known;
  const made = make();
  map.set(key, made);
  return made;
}

function side({ id, proxied }: Workload): string {
  return proxied ? id : `${id}*`;
}
