/**
 * Options of a run: sizes, protocol, rounds, where results go. One table, from which the help text comes.
 */
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { RoundsPolicy } from './rounds.ts';

/** The size of the generated mesh and the protocol. */
export interface Size {
  readonly services: number;
  /** Per service. */
  readonly endpoints: number;
  readonly proxies: number;
  readonly namespaces: number;
  readonly mode: Mode;
  readonly security: Security;
  readonly content: Content;
}

export type Mode = 'delta' | 'sotw';

/** How proxies connect: plain text on the open address, or TLS with client certificates on the secured one. */
export type Security = 'plain' | 'mtls';

/**
 * The configuration that proxies receive. `mtls`: that of sidecars whose agent has certificates, in a mesh whose
 * workloads have such sidecars. `plain`: that of proxies without certificates, as all figures before November 2026.
 */
export type Content = 'mtls' | 'plain';

/** Mode, security and content as a table names them. */
export function modeText({ mode, security, content }: Pick<Size, 'mode' | 'security' | 'content'>): string {
  return [mode, ...(security === 'plain' ? [] : ['TLS']), ...(content === 'mtls' ? [] : ['plain content'])].join(', ');
}

export interface BenchOptions extends Size {
  /** Measured repetitions of each change. */
  readonly rounds: number;
  /** Rounds before them that do not count, until code is compiled and caches are filled. */
  readonly warmUp: number;
  /** When a round counts as disturbed, and how many rounds of a row may be repeated. */
  readonly policy: RoundsPolicy;
  /** Length of the `churn` bench. */
  readonly seconds: number;
  /** Endpoint changes per second of that bench. */
  readonly changes: number;
  /** Part of the hostile load of the `neighbours` bench, 0 to 1. */
  readonly load: number;
  /** Parts of names of scenarios and sources; empty: all. */
  readonly only: readonly string[];
  /** Longest wait for anything that the proxies should receive. */
  readonly timeoutMs: number;
  /** `dist`: the output of `npm run build`, as in production, built once per run. `sources`: as in development. */
  readonly server: 'dist' | 'sources';
  /** Binary of another control plane with the same flags, which reads a cluster: Istio's `pilot-discovery`; or empty. */
  readonly peer: string;
  /** Another checkout, whose built program is measured by turns with this one's; or empty. */
  readonly against: string;
  readonly turns: number;
  /** Simulated proxies accept compressed messages, as the XDS proxy of an agent does. */
  readonly gzip: boolean;
  /** Takes CPU profiles of the server, which the report sums up. They slow it down somewhat. */
  readonly profile: boolean;
  /** Folder of the report and its plots. */
  readonly out: string;
  /** Also write the results as JSON here. */
  readonly json: string | undefined;
}

const REPOSITORY = join(import.meta.dirname, '..');

interface Argument {
  readonly fallback: string;
  readonly meaning: string;
}

const ARGUMENTS = {
  services: { fallback: '1000', meaning: 'services in the mesh' },
  endpoints: { fallback: '5', meaning: 'endpoints of each service' },
  proxies: { fallback: '1000', meaning: 'simulated proxies' },
  namespaces: { fallback: '10', meaning: 'namespaces that services and proxies are spread over' },
  mode: { fallback: 'delta', meaning: 'delta or sotw, or both' },
  security: { fallback: 'plain', meaning: 'how proxies connect: plain or mtls, or both' },
  content: { fallback: 'mtls', meaning: 'mtls: proxies and workloads have certificates; plain: none has' },
  rounds: { fallback: '3', meaning: 'measured repetitions' },
  repeats: { fallback: '3', meaning: 'disturbed rounds of a row that are run again, at most; 0: none' },
  pause: { fallback: '5', meaning: 'wait before such a repetition, seconds' },
  stolen: { fallback: '3', meaning: 'a round is disturbed when the hypervisor took more than so many % of its CPU' },
  others: { fallback: '10', meaning: '… or when processes other than the bench used more than so many % of all cores' },
  seconds: { fallback: '60', meaning: 'length of the churn bench' },
  changes: { fallback: '10', meaning: 'endpoint changes a second of the churn bench' },
  load: { fallback: '100', meaning: 'hostile load of the neighbours bench, % of its full size' },
  only: {
    fallback: '',
    meaning: 'neighbours, kubernetes, policy: parts of these benches whose names contain one of these, by commas',
  },
  timeout: { fallback: '180', meaning: 'longest wait for one change to arrive, seconds' },
  server: { fallback: 'dist', meaning: 'dist (as built) or sources' },
  peer: { fallback: '', meaning: "a binary in place of ctl-discovery (bench kubernetes): Istio's pilot-discovery" },
  against: { fallback: '', meaning: 'another checkout, after `npm run build`: each bench runs with both by turns' },
  turns: { fallback: '3', meaning: 'such turns' },
  out: { fallback: join(REPOSITORY, '.cache/bench'), meaning: 'folder of the report' },
  json: { fallback: '', meaning: 'file for the results as JSON (default: results.json in the report folder)' },
} as const satisfies Readonly<Record<string, Argument>>;

export interface CommandLine {
  /** Names of the benches; empty: all. */
  readonly names: readonly string[];
  /** One run for each chosen combination of protocol and security. */
  readonly runs: readonly BenchOptions[];
}

export function usage(names: readonly string[]): string {
  const lines = Object.entries(ARGUMENTS).map(
    ([name, { fallback, meaning }]) => `  --${name.padEnd(11)} ${meaning}${fallback === '' ? '' : ` (${fallback})`}`,
  );
  return [
    'npm run bench -- [NAME...] [options]',
    `names: ${names.join(' ')} (default: all)`,
    ...lines,
    '  --gzip        proxies accept compressed messages, as behind the XDS proxy of an agent',
    '  --profile     CPU profiles of the server, summed up; they slow it down',
    '',
  ].join('\n');
}

function whole(name: string, text: string, min: number): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < min) throw new Error(`--${name}: a whole number from ${min} on, not ${text}`);
  return value;
}

/** A share, of a text in percent. */
function share(name: string, text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !(value >= 0 && value <= 100)) throw new Error(`--${name}: 0 to 100 percent, not ${text}`);
  return value / 100;
}

function oneOf<T extends string>(name: string, text: string, choices: readonly T[]): T {
  const choice = choices.find((candidate) => candidate === text);
  if (choice === undefined) throw new Error(`--${name}: one of ${choices.join(', ')}, not ${text}`);
  return choice;
}

/** Throws an Error of one line for invalid arguments. */
export function parseCommandLine(args: readonly string[]): CommandLine {
  const strings = Object.fromEntries(
    Object.entries(ARGUMENTS).map(([name, { fallback }]) => [name, { type: 'string' as const, default: fallback }]),
  );
  const { values, positionals } = parseArgs({
    args: [...args],
    options: {
      ...strings,
      gzip: { type: 'boolean', default: false },
      profile: { type: 'boolean', default: false },
    },
    allowPositionals: true,
  });
  const given = new Map<string, unknown>(Object.entries(values));
  const text = (name: keyof typeof ARGUMENTS): string => String(given.get(name));
  const isGiven = (name: string): boolean => given.get(name) === true;
  const services = whole('services', text('services'), 4);
  const namespaces = whole('namespaces', text('namespaces'), 1);
  if (namespaces > services) throw new Error('--namespaces: at most as many as services');
  const common = {
    services,
    endpoints: whole('endpoints', text('endpoints'), 1),
    proxies: whole('proxies', text('proxies'), 1),
    namespaces,
    rounds: whole('rounds', text('rounds'), 1),
    warmUp: 1,
    policy: {
      repeats: whole('repeats', text('repeats'), 0),
      pauseMs: whole('pause', text('pause'), 0) * 1000,
      stolen: share('stolen', text('stolen')),
      others: share('others', text('others')),
    },
    content: oneOf('content', text('content'), ['mtls', 'plain'] as const),
    seconds: whole('seconds', text('seconds'), 1),
    changes: whole('changes', text('changes'), 1),
    load: share('load', text('load')),
    only: text('only') === '' ? [] : text('only').split(','),
    timeoutMs: whole('timeout', text('timeout'), 1) * 1000,
    server: oneOf('server', text('server'), ['dist', 'sources'] as const),
    peer: text('peer'),
    against: text('against'),
    turns: whole('turns', text('turns'), 1),
    gzip: isGiven('gzip'),
    profile: isGiven('profile'),
    out: text('out'),
    json: text('json') === '' ? undefined : text('json'),
  } as const;
  const mode = oneOf('mode', text('mode'), ['delta', 'sotw', 'both'] as const);
  const modes: readonly Mode[] = mode === 'both' ? ['delta', 'sotw'] : [mode];
  const security = oneOf('security', text('security'), ['plain', 'mtls', 'both'] as const);
  const kinds: readonly Security[] = security === 'both' ? ['plain', 'mtls'] : [security];
  const runs = modes.flatMap((each) => kinds.map((kind) => ({ ...common, mode: each, security: kind })));
  return { names: positionals, runs };
}
