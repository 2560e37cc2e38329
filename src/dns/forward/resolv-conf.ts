/** Reads resolv.conf (resolv.conf(5)) and follows its changes. */
import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { systemClock } from '../../core/clock.ts';
import { CtlError, messageOf } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import { Refresh } from '../../core/scheduling/refresh.ts';

export interface ResolvConf {
  /** IP addresses; IPv6 addresses have the zone that the file gives. */
  readonly servers: readonly string[];
  /** Search domains, lower case, without a dot at the end. */
  readonly search: readonly string[];
  /** How long to wait for a response, ms. */
  readonly timeoutMs: number;
  /** How many times all servers are asked. */
  readonly attempts: number;
  /** Whether each query starts with another server. */
  readonly rotate: boolean;
  /** Queries are sent over TCP (`use-vc`). */
  readonly tcp: boolean;
}

/**
 * Applications retry or try another server after 5 s: two servers must have been tried by then. The default of the C
 * library is 5 s.
 */
const DEFAULT_TIMEOUT_MS = 2000;
/** Default and limits of the C library. */
const DEFAULT_ATTEMPTS = 2;
const MAX_ATTEMPTS = 5;
const MAX_TIMEOUT_SECONDS = 30;
/** More than the three of the C library; a file with more is a mistake. */
const MAX_SERVERS = 8;
const MAX_SEARCH = 32;
/** Maximum size of a file; a longer one is not read. */
const MAX_CHARACTERS = 64 * 1024;

export const NO_RESOLV_CONF: ResolvConf = {
  servers: [],
  search: [],
  timeoutMs: DEFAULT_TIMEOUT_MS,
  attempts: DEFAULT_ATTEMPTS,
  rotate: false,
  tcp: false,
};

export interface ParsedResolvConf {
  readonly conf: ResolvConf;
  /** What was ignored, each as `LINE: what was expected`. */
  readonly problems: readonly string[];
}

/** Unknown lines and options are ignored, as the C library does: other resolvers have more of them. */
export function parseResolvConf(text: string): ParsedResolvConf {
  const servers: string[] = [];
  const problems: string[] = [];
  let search: string[] = [];
  let options: string[] = [];
  for (const [index, line] of text.split('\n').entries()) {
    // A comment begins with `;` or `#` in the first column; after an address the C library ignores the rest.
    const [keyword = '', ...words] = /^[;#]/.test(line) ? [] : line.trim().split(/\s+/);
    if (keyword === 'nameserver') {
      const [address = ''] = words;
      if (isIP(address) === 0) problems.push(`${index + 1}: nameserver ${address}: expected an IP address`);
      else if (servers.length < MAX_SERVERS) servers.push(address);
    } else if (keyword === 'search' || keyword === 'domain') {
      const domains = words.map((word) => word.replace(/\.$/, '').toLowerCase()).filter((word) => word !== '');
      search = domains.slice(0, keyword === 'domain' ? 1 : MAX_SEARCH);
    } else if (keyword === 'options') options = [...options, ...words];
  }
  const number = (name: string, max: number): number | undefined => {
    const value = options.findLast((option) => option.startsWith(`${name}:`))?.slice(name.length + 1);
    return value !== undefined && /^\d+$/.test(value) ? Math.min(Math.max(Number(value), 1), max) : undefined;
  };
  const timeout = number('timeout', MAX_TIMEOUT_SECONDS);
  const conf: ResolvConf = {
    servers,
    search,
    timeoutMs: timeout === undefined ? DEFAULT_TIMEOUT_MS : timeout * 1000,
    attempts: number('attempts', MAX_ATTEMPTS) ?? DEFAULT_ATTEMPTS,
    rotate: options.includes('rotate'),
    tcp: options.includes('use-vc') || options.includes('usevc'),
  };
  return { conf, problems };
}

export interface ResolvConfSource {
  /** The last good content. */
  current(): ResolvConf;
  /** Reads the file again; resolves when that is done. Called by itself when the file changes. */
  reload(): Promise<void>;
  close(): void;
}

export interface ResolvConfOptions {
  readonly path: string;
  readonly log: Log;
  /** How often the file is read, ms. It is polled by name, because it is usually replaced, or a symbolic link. */
  readonly intervalMs?: number;
}

const INTERVAL_MS = 2000;

/**
 * @throws CtlError if the file cannot be read or has no server
 */
async function readResolvConf(path: string): Promise<ParsedResolvConf> {
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    throw new CtlError('failed_precondition', `${path} cannot be read: ${messageOf(error)}`, {}, error);
  });
  const parsed = parseResolvConf(text.length > MAX_CHARACTERS ? '' : text);
  if (parsed.conf.servers.length > 0) return parsed;
  const [problem] = parsed.problems;
  throw new CtlError('failed_precondition', `${path}${problem === undefined ? ': no nameserver' : `:${problem}`}`);
}

/**
 * If the file cannot be read or has no server, this is logged and the last good content stays in use. If that happens
 * at start, names outside the mesh cannot be resolved until the file is valid.
 */
export async function followResolvConf(options: ResolvConfOptions): Promise<ResolvConfSource> {
  const { path, log, intervalMs = INTERVAL_MS } = options;
  let shown: string | undefined;
  let ignored: string | undefined;
  const current = (): ResolvConf => refresh.value?.conf ?? NO_RESOLV_CONF;
  const refresh = new Refresh<ParsedResolvConf>({
    load: async () => ({ value: await readResolvConf(path), refreshMs: intervalMs }),
    onValue({ conf, problems: [problem] }) {
      if (problem !== undefined && problem !== ignored) log.warn(`${path}:${problem}; the line is ignored`);
      ignored = problem;
      const servers = conf.servers.join(', ');
      if (servers !== shown) log.debug(`DNS servers of ${path}: ${servers}`);
      shown = servers;
    },
    onProblem({ message }) {
      const kept =
        current().servers.length > 0 ? 'its last good content is used' : 'only names of the mesh are resolved';
      log.warn(`${message}; ${kept}`);
    },
    clock: systemClock,
    retryMs: () => intervalMs,
  });
  await refresh.start();
  return { current, reload: () => refresh.start(), close: () => void refresh.close() };
}
