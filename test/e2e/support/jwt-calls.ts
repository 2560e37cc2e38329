/** Calls by curl to gateways and sidecars, their expected outcomes, and the table of outcomes. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { type EchoReply, eventually } from '../../harness/index.ts';
import { HTTP, type Site } from './jwt-world.ts';

/** Status and body of Envoy's usual answers. */
export const FORBIDDEN = '403 RBAC: access denied';
export const MALFORMED = '401 Jwt is not in the form of Header.Payload.Signature with two dots and 3 sections';
export const UNKNOWN_ISSUER = '401 Jwt issuer is not configured';
export const WRONG_AUDIENCE = '401 Audiences in Jwt are not allowed';
export const EXPIRED = '401 Jwt is expired';
export const OTHER_KEY = "401 Jwks doesn't have key to match kid or alg from Jwt";

export interface Call {
  readonly path?: string;
  readonly method?: string;
  readonly host?: string;
  /** `name: value`, as curl takes them. */
  readonly headers?: readonly string[];
}

export interface Answer {
  readonly status: number;
  readonly body: string;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, readonly string[]>>;
  /** What the backend saw, if it answered. */
  readonly seen: EchoReply | undefined;
}

/** Calls by curl. */
export async function curl({ proxy }: Site, { path = '/', method = 'GET', host, headers = [] }: Call): Promise<Answer> {
  const all = host === undefined ? headers : [`Host: ${host}`, ...headers];
  const { stdout } = await promisify(execFile)('curl', [
    ...['-s', '-m', '20', '-X', method, '-w', '\n%{http_code} %{exitcode}\n%{header_json}'],
    ...all.flatMap((header) => ['-H', header]),
    `http://${proxy.address}:${HTTP}${path}`,
  ]);
  const [, body = '', status = '0', , json = '{}'] = /^([\s\S]*)\n(\d{3}) (\d+)\n(\{[\s\S]*)$/.exec(stdout) ?? [];
  const seen = status === '200' ? (JSON.parse(body) as EchoReply) : undefined;
  return { status: Number(status), body, headers: JSON.parse(json) as Answer['headers'], seen };
}

/** `200`, or the status and the body. */
export function outcomeOf({ status, body }: Answer): string {
  return status === 200 ? '200' : `${status} ${body.trim()}`.trim();
}

export const bearer = (token: string): string => `Authorization: Bearer ${token}`;

/** A request and its expected outcome. */
export interface Row extends Call {
  readonly what: string;
  readonly expected: string;
}

export const row = (what: string, expected: string, ...headers: readonly string[]): Row => ({
  what,
  expected,
  headers,
});
export const noToken = (expected: string, call: Call = {}): Row => ({
  what: `no token${call.path === undefined ? '' : ` at ${call.path}`}`,
  expected,
  ...call,
});

/** Outcomes, for a table that people read. */
export class JwtTable {
  /** Policy → row → outcome → places. */
  readonly #met = new Map<string, Map<string, Map<string, Set<string>>>>();

  /** Waits until all rows have their expected outcome at once, at each of the sites, and records them. */
  async check(policy: string, sites: readonly Site[], rows: readonly Row[]): Promise<void> {
    await Promise.all(
      sites.map((site) =>
        eventually(
          async () => {
            const seen: string[] = [];
            for (const row of rows) seen.push(`${row.what}: ${outcomeOf(await curl(site, row))}`);
            const expected = rows.map((row) => `${row.what}: ${row.expected}`);
            if (seen.join('\n') !== expected.join('\n'))
              throw new Error(`${site.proxy.name}: ${differing(seen, expected)}`);
          },
          { timeoutMs: 30_000, intervalMs: 100 },
        ),
      ),
    );
    for (const row of rows) for (const site of sites) this.#note(policy, row, site);
  }

  #note(policy: string, { what, expected }: Row, { place }: Site): void {
    const rows = this.#met.get(policy) ?? new Map<string, Map<string, Set<string>>>();
    this.#met.set(policy, rows);
    const outcomes = rows.get(what) ?? new Map<string, Set<string>>();
    rows.set(what, outcomes);
    const places = outcomes.get(expected) ?? new Set<string>();
    outcomes.set(expected, places.add(place));
  }

  print(): void {
    const lines = [...this.#met].flatMap(([policy, rows]) => [
      policy,
      ...[...rows].map(([what, outcomes]) => {
        const cells = [...outcomes].map(([outcome, places]) => `${outcome} (${[...places].join(', ')})`);
        return `  ${what.padEnd(52)} ${cells.join(' | ')}`;
      }),
    ]);
    process.stdout.write(`Tokens and what came of them:\n${lines.join('\n')}\n`);
  }
}

function differing(seen: readonly string[], expected: readonly string[]): string {
  return seen
    .flatMap((line, index) => (line === expected[index] ? [] : [`${line}, expected ${expected[index]}`]))
    .join('; ');
}
