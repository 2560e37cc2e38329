/** Parses Envoy's log lines (its stderr), and logs them with their level. */
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

/** A line in the format of `command.ts`; undefined for anything else, such as access logs to stderr. */
export function parseLogLine(line: string): EnvoyLogLine | undefined {
  const [, level = '', component = '', text = ''] = /^\[(\w+)\]\[(\w+)\] (.*)$/.exec(line) ?? [];
  const known = LEVELS[level];
  if (known === undefined) return undefined;
  return { level: known, component, text: plainText(text) };
}

/**
 * Undoes Envoy's C-style escaping, which puts a multi-line message on one line; the agent's log has its own escaping.
 */
function plainText(text: string): string {
  const named: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t' };
  return text.replace(/\\(.)/g, (_, escaped: string) => named[escaped] ?? escaped);
}

/**
 * Logs a line of Envoy. Envoy warns when a stream is closed and nothing was sent to it since the previous stream was
 * closed. If the reason is an expired credential, that is normal for an idle proxy, and is logged at debug level.
 */
export function logEnvoyLine(log: Pick<Logger, EnvoyLogLine['level']>, { level, component, text }: EnvoyLogLine): void {
  const shown = text.includes(CREDENTIAL_ENDED) ? 'debug' : level;
  log[shown](`envoy: ${text}`, { component });
}

/** Longer lines are split: a dumped configuration must not fill the agent's memory. */
const MAX_LINE = 16 * 1024;

/** Calls `take` with each line of a stream, without its line end. */
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
