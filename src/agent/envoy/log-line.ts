/** Envoy's log lines (its stderr), read and passed on with their level. */
import type { Readable } from 'node:stream';
import { CREDENTIAL_ENDED } from '../../core/stream-end.ts';
import type { Logger } from '../../logging/index.ts';

export interface EnvoyLogLine {
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  /** Envoy's component, such as `config`. */
  readonly component: string;
  readonly text: string;
}

const LEVELS: Readonly<Record<string, EnvoyLogLine['level']>> = {
  trace: 'debug',
  debug: 'debug',
  info: 'info',
  warning: 'warn',
  warn: 'warn',
  error: 'error',
  critical: 'error',
};

/** A line in the format that `command.ts` asks for; undefined for anything else, such as access logs to stderr. */
export function parseLogLine(line: string): EnvoyLogLine | undefined {
  const [, level = '', component = '', text = ''] = /^\[(\w+)\]\[(\w+)\] (.*)$/.exec(line) ?? [];
  const known = LEVELS[level];
  if (known === undefined) return undefined;
  return { level: known, component, text: plainText(text) };
}

/**
 * Undoes Envoy's C-style escaping, which keeps a message of several lines on one; the agent's log escapes in its own
 * way.
 */
function plainText(text: string): string {
  const named: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t' };
  return text.replace(/\\(.)/g, (_, escaped: string) => named[escaped] ?? escaped);
}

/**
 * Writes a line of Envoy's to the log. Envoy warns of a stream that ended with its credential when nothing was sent
 * since the last such end, as it is with a proxy that is up to date; to an operator it is nothing.
 */
export function logEnvoyLine(log: Pick<Logger, EnvoyLogLine['level']>, { level, component, text }: EnvoyLogLine): void {
  const shown = text.includes(CREDENTIAL_ENDED) ? 'debug' : level;
  log[shown](`envoy: ${text}`, { component });
}

/** Longer lines are cut in pieces: a dumped configuration must not become the agent's memory. */
const MAX_LINE = 16 * 1024;

/** Calls `take` with each line of a stream, without its end. */
export function readLines(stream: Readable, take: (line: string) => void): void {
  let rest = '';
  stream.setEncoding('utf8');
  stream.on('data', (chunk: string) => {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) if (line !== '') take(line.slice(0, MAX_LINE));
    if (rest.length <= MAX_LINE) return;
    take(rest.slice(0, MAX_LINE));
    rest = '';
  });
  stream.on('end', () => {
    if (rest !== '') take(rest);
  });
}
