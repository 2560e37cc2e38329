/**
 * The notation of expectations about AuthorizationPolicy. A case is a rule with requests that it matches or does not.
 * Every case makes two policies, because DENY refuses what ALLOW allows: one on a workload that allows nothing else,
 * one on a workload that allows everything else. All cases are in force at once: each rule also requires the number of
 * its case in a header.
 */
import type { Document } from './config.ts';

/** Identity of a caller with a certificate of the mesh's authority: `spiffe://…`. */
export type SpiffeId = `spiffe://${string}`;

/** `plain`: no proxy and no certificate; `sidecar …`: through the proxy of that workload. */
export type Caller = 'plain' | SpiffeId | `sidecar ${string}`;

export interface Ask {
  /** Default `plain`. */
  readonly from?: Caller;
  /** Method and path; default `GET /`. */
  readonly line?: string;
  /** Default `shop.example`. */
  readonly host?: string;
  /** Further header lines, `name: value`. */
  readonly headers?: readonly string[];
  /** A valid token with these claims. */
  readonly token?: Document;
  /** Server name of the TLS connection. */
  readonly sni?: string;
  /** Number of the caller's additional address to use. */
  readonly at?: number;
  /** Uses HTTP/2 at its port. */
  readonly http2?: boolean;
  /** Port of the application; default 8080. */
  readonly port?: number;
  /** Bytes that are sent before the request. */
  readonly before?: string;
}

export type Rule = Document;

/** Address of the workload that a policy is for. */
export interface Guarded {
  readonly address: string;
}

export interface Case {
  readonly group: string;
  readonly what: string;
  /** Of one policy, or of the workload's own address. */
  readonly rules: readonly Rule[] | ((guarded: Guarded) => readonly Rule[]);
  readonly matches: readonly Ask[];
  readonly differs: readonly Ask[];
  /** Default both. */
  readonly actions?: readonly ('ALLOW' | 'DENY')[];
}

/** Cases of a group, by subject. */
export function cases(group: string, rows: Readonly<Record<string, Omit<Case, 'group' | 'what'>>>): Case[] {
  return Object.entries(rows).map(([what, row]) => ({ group, what, ...row }));
}

/** A rule with an operation only. */
export const operation = (fields: Document): Rule[] => [{ to: [{ operation: fields }] }];
/** A rule with a source only. */
export const source = (fields: Document): Rule[] => [{ from: [{ source: fields }] }];
/** A rule of one condition. */
export const when = (key: string, values: readonly string[]): Rule[] => [{ when: [{ key, values }] }];
export const whenNot = (key: string, notValues: readonly string[]): Rule[] => [{ when: [{ key, notValues }] }];

export const lines = (...all: readonly string[]): Ask[] => all.map((line) => ({ line }));
export const gets = (...paths: readonly string[]): Ask[] => paths.map((path) => ({ line: `GET ${path}` }));
export const hosts = (...all: readonly string[]): Ask[] => all.map((host) => ({ host }));
export const callers = (...all: readonly Caller[]): Ask[] => all.map((from) => ({ from }));
/** The requests, each with this additional header line. */
export const withHeader = (...all: readonly string[]): Ask[] => all.map((header) => ({ headers: [header] }));
export const withToken = (...all: readonly Document[]): Ask[] => all.map((token) => ({ token }));
export const at = (...all: readonly number[]): Ask[] => all.map((number) => ({ at: number }));

export const mesh = (namespace: string, account: string, domain = 'cluster.local'): SpiffeId =>
  `spiffe://${domain}/ns/${namespace}/sa/${account}`;

export const CASE_HEADER = 'x-case';

/** The rules of a case, which only its own requests can match. */
export function keyed(rules: readonly Rule[], id: string): Rule[] {
  return rules.map((rule) => {
    const conditions = Array.isArray(rule.when) ? (rule.when as readonly Document[]) : [];
    return { ...rule, when: [...conditions, { key: `request.headers[${CASE_HEADER}]`, values: [id] }] };
  });
}

/** For the printed table. */
export function textOf(ask: Ask): string {
  const { from = 'plain', line = 'GET /', host, headers = [], token, sni, at: number, http2, port, before } = ask;
  return [
    from === 'plain' ? '' : from,
    line,
    host === undefined ? '' : `Host: ${JSON.stringify(host)}`,
    ...headers,
    token === undefined ? '' : `token ${JSON.stringify(token)}`,
    sni === undefined ? '' : `SNI ${sni}`,
    number === undefined ? '' : `from .${number}`,
    http2 ? 'HTTP/2' : '',
    port === undefined ? '' : `port ${port}`,
    before === undefined ? '' : `behind ${JSON.stringify(before)}`,
  ]
    .filter((part) => part !== '')
    .join(' ');
}
