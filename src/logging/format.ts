/**
 * Formats a log record as one line: text (`time<TAB>level<TAB>scope<TAB>message`) or JSON. Messages quote external
 * input (Envoy's NACK reasons, file contents, node IDs), so control characters are escaped: a message cannot forge a
 * second record.
 */
import { messageOf } from '../core/errors.ts';
import type { MessageLevel, ScopeName } from './scopes.ts';

export interface LogRecord {
  /** Unix time in milliseconds, with a fraction down to the microsecond. */
  readonly time: number;
  readonly level: MessageLevel;
  readonly scope: ScopeName;
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>> | undefined;
  /** `folder/file.ts:line` of the code that logged. */
  readonly caller: string | undefined;
  /** Stack frames, one on each line. */
  readonly stack: string | undefined;
}

/** `2026-01-01T00:00:00.000000Z`, in text and JSON. */
function formatTime(time: number): string {
  const micros = Math.round(time * 1000);
  const date = new Date(Math.floor(micros / 1000)).toISOString();
  return `${date.slice(0, -1)}${String(micros % 1000).padStart(3, '0')}Z`;
}

/** The message with its fields. */
export function recordText({ message, fields }: Pick<LogRecord, 'message' | 'fields'>): string {
  let text = escapeControls(message);
  for (const [key, value] of Object.entries(fields ?? {})) {
    if (value !== undefined) text += `\t${key}=${fieldText(value)}`;
  }
  return text;
}

export function formatText(record: LogRecord): string {
  let line = `${formatTime(record.time)}\t${record.level}\t${record.scope}\t`;
  if (record.caller !== undefined) line += `${record.caller}\t`;
  line += recordText(record);
  if (record.stack !== undefined) line += `\n${record.stack}`;
  return `${line}\n`;
}

export function formatJson(record: LogRecord): string {
  const fields: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(record.fields ?? {})) fields[key] = plain(value);
  // The parts of the record come last, so that a field of the same name cannot replace them.
  return `${safeStringify({
    ...fields,
    time: formatTime(record.time),
    level: record.level,
    scope: record.scope,
    caller: record.caller,
    msg: record.message,
    stack: record.stack,
  })}\n`;
}

function fieldText(value: unknown): string {
  const shown = plain(value);
  if (typeof shown !== 'string') return escapeControls(safeStringify(shown));
  return /^[^\s"=]+$/.test(shown) ? escapeControls(shown) : escapeControls(JSON.stringify(shown));
}

/**
 * Replaces values that JSON does not have: an error by its message, a BigInt and similar values by their string form.
 */
function plain(value: unknown): unknown {
  if (value instanceof Error) return value.message;
  if (typeof value === 'bigint' || typeof value === 'symbol' || typeof value === 'function') return String(value);
  if (typeof value === 'number' && !Number.isFinite(value)) return String(value);
  return value;
}

/** Never throws: a field that cannot be serialized must not fail the caller of the logger. */
function safeStringify(value: unknown): string {
  try {
    return JSON.stringify(value, (_key, inner: unknown) => plain(inner)) ?? 'null';
  } catch (error) {
    return JSON.stringify({ unprintable: messageOf(error) });
  }
}

function escapeControls(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: finding control characters is the point
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g, (char) => {
    if (char === '\n') return '\\n';
    if (char === '\t') return '\\t';
    if (char === '\r') return '\\r';
    return `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
}
