/**
 * Flags of several commands: logging on every command of both programs, introspection and keepalive on every command of
 * ctl-discovery, and the flags of `version`.
 */

import { type ProgramName, parseScopeLevels, parseScopeList } from '../logging/index.ts';
import type { FlagTable, FlagValues } from './flag-table.ts';

/** The logging flags. Each program has its own scopes. */
export function loggingFlags(program: ProgramName) {
  return {
    log_as_json: {
      type: 'bool',
      default: false,
      meaning: 'Format output as JSON instead of console-friendly text.',
    },
    log_caller: {
      type: 'string',
      default: '',
      meaning: 'Comma-separated scopes for which caller information is included.',
      check: (text: string) => void parseScopeList(text, program),
    },
    log_output_level: {
      type: 'string',
      default: 'default:info',
      meaning: 'Comma-separated `<scope>:<level>` pairs giving the minimum level output per scope.',
      check: (text: string) => void parseScopeLevels(text, program),
    },
    log_rotate: { type: 'string', default: '', meaning: 'Path of an optional rotating log file.' },
    log_rotate_max_age: {
      type: 'int',
      default: 30,
      min: 0,
      unit: 'days',
      meaning: 'Maximum age in days of a log file before rotation; 0 means no limit.',
    },
    log_rotate_max_backups: {
      type: 'int',
      default: 1000,
      min: 0,
      unit: 'files',
      meaning: 'Maximum number of backups kept; 0 means no limit.',
    },
    log_rotate_max_size: {
      type: 'int',
      default: 104857600,
      min: 0,
      unit: 'megabytes',
      meaning: 'Maximum size of a log file before rotation, in megabytes; from 1048576 on in bytes; 0 means no limit.',
    },
    log_stacktrace_level: {
      type: 'string',
      default: 'default:none',
      meaning: 'Comma-separated `<scope>:<level>` pairs giving the minimum level at which stack traces are captured.',
      check: (text: string) => void parseScopeLevels(text, program),
    },
    log_target: {
      type: 'stringArray',
      default: ['stdout'],
      meaning: 'Paths where the log is written; `stdout` and `stderr` are special values.',
    },
  } as const satisfies FlagTable;
}

/** The settings of the logging flags. */
export type LoggingSettings = FlagValues<ReturnType<typeof loggingFlags>>;

export const introspectionFlags = {
  introspect_address: {
    type: 'string',
    default: 'localhost',
    meaning: 'IP address for the introspection facility; `*` means all addresses.',
  },
  introspect_port: { type: 'uint16', default: 9876, meaning: 'IP port of the introspection facility.' },
} as const satisfies FlagTable;

export const keepaliveFlags = {
  keepaliveInterval: {
    type: 'duration',
    default: '30s',
    min: 1,
    meaning: 'Idle time before the peer is pinged to check the transport.',
  },
  keepaliveMaxServerConnectionAge: {
    type: 'duration',
    default: '2562047h47m16.854775807s',
    min: 1,
    meaning: 'Maximum time a server connection stays open before a graceful close.',
  },
  keepaliveTimeout: {
    type: 'duration',
    default: '10s',
    min: 1,
    meaning: 'Wait after a keepalive ping before the connection is closed if no activity is seen.',
  },
} as const satisfies FlagTable;

export const versionFlags = {
  output: {
    type: 'string',
    short: 'o',
    default: '',
    values: ['yaml', 'json'],
    meaning: 'Output format: yaml or json.',
  },
  short: {
    type: 'bool',
    short: 's',
    default: true,
    meaning: 'Print the short form; use --short=false for full information.',
  },
} as const satisfies FlagTable;
