/** stdio: log entries and metrics as lines of this program's output. */
import { CtlError } from '../../core/errors.ts';
import type { Value } from '../../expressions/index.ts';
import type { StdioLevel, StdioParams } from '../types.ts';
import { type AdapterHost, type Built, type CallContext, type RunningHandler, textOf } from './types.ts';

const LEVELS: readonly StdioLevel[] = ['INFO', 'WARNING', 'ERROR'];

/** Longest line; a longer one is cut, because a program that reads lines has a limit as well. */
const MAX_LINE_CHARACTERS = 64 * 1024;

export function openStdio(id: string, params: StdioParams, host: AdapterHost): RunningHandler {
  let dropped = 0;
  const least = LEVELS.indexOf(params.outputLevel);
  return {
    daemons: 0,
    workers: 0,
    report(entries, call) {
      for (const built of entries) {
        const { level, time, fields } = lineOf(built, params, call);
        if (LEVELS.indexOf(level) < least) continue;
        const line = format(params, { level: level.toLowerCase(), time, instance: built.instance.id }, fields);
        if (host.lines.write(params.logStream, `${line.slice(0, MAX_LINE_CHARACTERS)}\n`)) continue;
        // Logged at the first line and then ever more rarely: the reader of the output is too slow for lines.
        dropped++;
        if ((dropped & (dropped - 1)) === 0)
          host.log.warn(`handler ${id}: ${dropped} lines were dropped, because the output is not read fast enough`);
      }
    },
    close: () => undefined,
  };
}

interface Line {
  readonly level: StdioLevel;
  readonly time: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

function lineOf({ value, instance }: Built, params: StdioParams, { now }: CallContext): Line {
  switch (value.template) {
    case 'logentry': {
      const time = value.timestamp === undefined ? new Date(now).toISOString() : textOf(value.timestamp);
      return { level: params.severityLevels.get(value.severity) ?? 'INFO', time, fields: plain(value.variables) };
    }
    case 'metric': {
      const fields = { ...plain(value.dimensions), value: jsonOf(value.value) };
      return { level: params.metricLevel, time: new Date(now).toISOString(), fields };
    }
    default:
      throw new CtlError('internal', `${instance.id} is no log entry`);
  }
}

function plain(values: ReadonlyMap<string, Value>): Record<string, unknown> {
  return Object.fromEntries([...values].map(([name, value]) => [name, jsonOf(value)]));
}

function jsonOf(value: Value): unknown {
  if (typeof value === 'number' || typeof value === 'boolean') return value;
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  return value instanceof Map ? Object.fromEntries(value) : textOf(value);
}

/** JSON, or the level, time and instance in front of the fields. JSON escapes what could end the line. */
function format(
  { outputAsJson }: StdioParams,
  head: { readonly level: string; readonly time: string; readonly instance: string },
  fields: Line['fields'],
): string {
  if (outputAsJson) return JSON.stringify({ ...fields, ...head });
  return `${head.time}\t${head.level}\t${head.instance}\t${JSON.stringify(fields)}`;
}
