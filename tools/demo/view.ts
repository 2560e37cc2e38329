/** The live view as lines of text. Pure functions, so that tests need no mesh and no terminal. */
import { styleText } from 'node:util';
import type { Places } from './ports.ts';
import type { MeshState, ProxyState } from './state.ts';
import type { AddressLimits } from './traffic.ts';

/** The last push. */
export interface LastPush {
  readonly at: Date;
  readonly proxies: number;
  /** From the change to the acknowledgement, average of these proxies. */
  readonly seconds: number;
}

export interface View {
  readonly state: MeshState;
  readonly lastPush?: LastPush;
  /** Absent when lines are printed on change, because it always changes. */
  readonly traffic?: AddressLimits;
}

const COLUMNS = ['PROXY', 'PROTOCOL', 'STATE', 'CLUSTERS', 'LISTENERS', 'ROUTES', 'ENDPOINTS'] as const;

const PROTOCOLS: Readonly<Record<string, string>> = { sotw: 'SotW', delta: 'Delta' };

const STATE_STYLES = { synced: 'green', waiting: 'yellow', rejected: 'red', 'not connected': 'red' } as const;

/** Colours text. */
export type Paint = (style: 'green' | 'yellow' | 'red' | 'bold' | 'dim', text: string) => string;

export const plain: Paint = (_style, text) => text;
/** The caller decides whether to use colours. */
export const coloured: Paint = (style, text) => styleText(style, text, { validateStream: false });

function cells({ workload, protocol, sync, held }: ProxyState): string[] {
  const counts = [held?.clusters, held?.listeners, held?.routes, held?.endpoints];
  const shown = protocol === undefined ? '-' : (PROTOCOLS[protocol] ?? protocol);
  return [workload, shown, sync, ...counts.map((count) => (count === undefined ? '-' : String(count)))];
}

/** Names and right-aligned numbers. */
function tableLines(proxies: readonly ProxyState[], paint: Paint): string[] {
  const rows = proxies.map(cells);
  const widths = COLUMNS.map((title, i) => Math.max(title.length, ...rows.map((row) => row[i]?.length ?? 0)));
  const pad = (text: string, i: number) => (i < 3 ? text.padEnd(widths[i] ?? 0) : text.padStart(widths[i] ?? 0));
  const line = (row: readonly string[], style: (text: string, i: number) => string) =>
    row.map((text, i) => style(pad(text, i), i)).join('  ');
  const head = line(COLUMNS, (text) => paint('dim', text));
  const body = rows.map((row, index) =>
    line(row, (text, i) => (i === 2 ? paint(STATE_STYLES[proxies[index]?.sync ?? 'waiting'], text) : text)),
  );
  return [head, ...body.map((text) => text.trimEnd())];
}

/** `12:03:04`, local time. */
function clock(at: Date): string {
  return [at.getHours(), at.getMinutes(), at.getSeconds()].map((part) => String(part).padStart(2, '0')).join(':');
}

function pushText({ at, proxies, seconds }: LastPush): string {
  const who = proxies === 1 ? '1 proxy' : `${proxies} proxies`;
  return `${clock(at)}  ${who} in ${Math.round(seconds * 1000)} ms, from the change on disk to the acknowledgement`;
}

function trafficText(shares: AddressLimits): string {
  const total = [...shares.values()].reduce((sum, count) => sum + count, 0);
  if (total === 0) return 'none yet';
  const parts = [...shares].map(([outcome, count]) => `${outcome} ${Math.round((count / total) * 100)} %`);
  return `${parts.join('   ')}   (the last ${total} requests for /hello)`;
}

/** The changing part of the view. */
export function viewLines({ state, lastPush, traffic }: View, paint: Paint): string[] {
  const label = (name: string) => paint('bold', name.padEnd(10));
  const lines = [...tableLines(state.proxies, paint), ''];
  for (const { workload, rejection } of state.proxies) {
    if (rejection !== undefined)
      lines.push(`${label('rejected')}${paint('red', `${workload}: ${oneLine(rejection)}`)}`);
  }
  lines.push(`${label('last push')}${lastPush === undefined ? 'none yet' : pushText(lastPush)}`);
  if (traffic !== undefined) lines.push(`${label('traffic')}${trafficText(traffic)}`);
  if (state.problems.length === 0) lines.push(`${label('problems')}none`);
  for (const problem of state.problems) lines.push(`${label('problem')}${paint('red', oneLine(problem))}`);
  return lines;
}

const oneLine = (text: string): string => text.replace(/\s+/g, ' ').trim();

/** The values in the hints. */
export interface Hints {
  readonly places: Places;
  /** The configuration directory, relative to the working directory. */
  readonly folder: string;
  /** The file with an end user's header. */
  readonly user: string;
  /** Name of a network namespace whose applications are redirected and what they may call, or why there is none. */
  readonly redirected: { readonly netns: string; readonly url: string } | { readonly unavailable: string };
}

/**
 * Things to try: the fixed part of the view. With the table above it must fit into a terminal of 24 rows.
 */
export function hintLines({ places, folder, redirected, user }: Hints, paint: Paint): string[] {
  const { gateway, helloSidecar, shopOutbound, http, introspection } = places;
  const front = `http://${gateway.address}:${gateway.port}`;
  const shop = `http://${shopOutbound.address}:${shopOutbound.port}`;
  const rows: [label: string, text: string, about: string][] = [
    ['try', `curl ${front}/hello`, 'v1 or v2, by weight; v1 shows who called (mutual TLS)'],
    ['', `curl -H 'x-version: v2' ${front}/hello`, 'always v2, by header'],
    ['', `curl -i ${front}/private`, '403: only for end users'],
    ['', `curl -H @${user} ${front}/private`, 'with a token of ctl-jwt'],
    ['', `curl -H 'host: hello' ${shop}/new/`, 'as shop, through its sidecar'],
    ['', `curl http://${helloSidecar.address}:${helloSidecar.port}/`, 'plain text at the sidecar of hello-v1'],
    'netns' in redirected
      ? ['', `ip netns exec ${redirected.netns} curl ${redirected.url}`, 'redirected by iptables, as root']
      : ['', `(no redirection: ${redirected.unavailable})`, 'as root there would be two workloads more'],
    ['edit', `${folder}/gateway-routes.yaml`, 'weights, timeouts, … and every other file there'],
    ['', `${folder}/peer-authentication.yaml`, 'STRICT: the plain text call fails (curl 56), the others go on'],
    ['look', `http://localhost:${introspection.port}`, 'its pages, in a browser'],
    ['', `http://${http.address}:${http.port}/debug`, 'what ctl-discovery knows, as JSON'],
    ['', 'Ctrl-C', 'ends everything'],
  ];
  const width = Math.max(...rows.map(([, text]) => text.length));
  return rows.map(
    ([label, text, about]) => `${paint('bold', label.padEnd(10))}${text.padEnd(width)}  ${paint('dim', about)}`,
  );
}

/** Lines of `next` that are not in `previous`, for output that cannot be redrawn. */
export function changedLines(previous: readonly string[], next: readonly string[]): string[] {
  const known = new Set(previous);
  return next.filter((line) => line !== '' && !known.has(line));
}

/** The sequence that replaces the `drawn` lines above the cursor, cut to the size of the terminal. */
export function redraw(drawn: number, lines: readonly string[], size: { columns: number; rows: number }): string {
  const up = drawn === 0 ? '' : `\x1b[${drawn}A`;
  const shown = lines.slice(0, Math.max(1, size.rows - 1)).map((line) => cutLine(line, size.columns));
  return `${up}\r\x1b[J${shown.map((line) => `${line}\n`).join('')}`;
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: colours are control characters
const COLOUR = /\x1b\[\d+m/y;

/** Cuts a line after `columns` visible characters. Colour sequences have no width and are kept. */
export function cutLine(line: string, columns: number): string {
  let cut = '';
  let visible = 0;
  for (let i = 0; i < line.length; ) {
    COLOUR.lastIndex = i;
    const colour = COLOUR.exec(line)?.[0];
    if (colour !== undefined) cut += colour;
    else if (visible++ < columns) cut += line[i];
    i += colour?.length ?? 1;
  }
  return cut;
}
