/**
 * How expectations about AuthorizationPolicy are written. A case is a rule and requests that it matches or does not.
 * Every case stands for two policies, as what ALLOW lets through is what DENY refuses: one on a workload that allows
 * nothing else, one on a workload that allows everything else. All cases hold at once: each rule asks for the number of
 * its case in a header, beside what it is about.
 */
import type { Document } from './config.ts';

/** Identity of a caller that shows a certificate of the mesh's authority: `spiffe://…`. */
export type SpiffeId = `spiffe://${string}`;

/** `plain` has no proxy and no certificate; `sidecar …` calls through the proxy of that workload. */
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
  /** Caller's address: the number of an address that it has beside its own. */
  readonly at?: number;
  /** Over HTTP/2, at that port. */
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

/** Cases of a group by what they are about. */
export function cases(group: string, rows: Readonly<Record<string, Omit<Case, 'group' | 'what'>>>): Case[] {
  return Object.entries(rows).map(([what, row]) => ({ group, what, ...row }));
}

/** A rule about the operation alone. */
export const operation = (fields: Document): Rule[] => [{ to: [{ operation: fields }] }];
/** A rule about the caller alone. */
export const source = (fields: Document): Rule[] => [{ from: [{ source: fields }] }];
/** A rule of one condition. */
export const when = (key: string, values: readonly string[]): Rule[] => [{ when: [{ key, values }] }];
export const whenNot = (key: string, notValues: readonly string[]): Rule[] => [{ when: [{ key, notValues }] }];

export const lines = (...all: readonly string[]): Ask[] => all.map((line) => ({ line }));
export const gets = (...paths: readonly string[]): Ask[] => paths.map((path) => ({ line: `GET ${path}` }));
export const hosts = (...all: readonly string[]): Ask[] => all.map((host) => ({ host }));
export const callers = (...all: readonly Caller[]): Ask[] => all.map((from) => ({ from }));
/** Requests with this one more header line each. */
export const withHeader = (...all: readonly string[]): Ask[] => all.map((header) => ({ headers: [header] }));
export const withToken = (...all: readonly Document[]): Ask[] => all.map((token) => ({ token }));
export const at = (...all: readonly number[]): Ask[] => all.map((number) => ({ at: number }));

export const mesh = (namespace: string, account: string, domain = 'cluster.local'): SpiffeId =>
  `spiffe://${domain}/ns/${namespace}/sa/${account}`;

export const CASE_HEADER = 'x-case';

/** The rules of a case, which only requests of that case can match. */
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
