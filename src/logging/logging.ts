/**
 * Logging of both programs: a level for each scope, text or JSON, optional callers and stack traces, several targets
 * and a rotating file.
 *
 * There is one logger for each scope. It stays valid when levels change at run time. A call below the level of the
 * scope costs one comparison, so debug lines are allowed in hot paths when their arguments are cheap; check
 * `enabled('debug')` before computing others. Before `configureLogging` (in tests and worker threads), warnings and
 * errors go to stderr.
 */
import { CtlError } from '../core/errors.ts';
import { sourceFrame } from '../core/process/source-maps.ts';
import { formatJson, formatText, type LogRecord } from './format.ts';
import { openRotatingSink, type RotateOptions } from './rotate.ts';
import { LOG_LEVELS, LOG_SCOPES, type LogLevel, type MessageLevel, type ScopeName } from './scopes.ts';
import { type LogSink, openSink } from './sink.ts';

type Fields = Readonly<Record<string, unknown>>;

/** Writes records of one scope. `fields` follow the message as `key=value`, or as members in the JSON form. */
export interface Logger {
  debug(message: string, fields?: Fields): void;
  info(message: string, fields?: Fields): void;
  warn(message: string, fields?: Fields): void;
  error(message: string, fields?: Fields): void;
  /** For an error that ends the program: written at once. The caller ends the program. */
  fatal(message: string, fields?: Fields): void;
  /** True when a message of this level would be written. */
  enabled(level: MessageLevel): boolean;
}

export interface LoggingOptions {
  readonly json: boolean;
  /** Scopes whose records name the code that logged them. */
  readonly callerScopes: ReadonlySet<ScopeName>;
  /** The lowest level that is written; `info` for other scopes. */
  readonly outputLevels: ReadonlyMap<ScopeName, LogLevel>;
  /** The lowest level with a stack trace; `none` for other scopes. */
  readonly stackLevels: ReadonlyMap<ScopeName, LogLevel>;
  /** `stdout`, `stderr` or paths. */
  readonly targets: readonly string[];
  /** A rotating file, in addition to the targets. */
  readonly rotate?: RotateOptions;
}

/** The settings of one scope, as the introspection page shows them. */
export interface ScopeSettings {
  readonly name: ScopeName;
  readonly outputLevel: LogLevel;
  readonly stackLevel: LogLevel;
  readonly caller: boolean;
}

interface ScopeState {
  readonly name: ScopeName;
  /** The settings of the logging flags. */
  defaults: ScopeSettings;
  output: number;
  stack: number;
  caller: boolean;
}

const RANK: Readonly<Record<LogLevel, number>> = { debug: 0, info: 1, warn: 2, error: 3, fatal: 4, none: 5 };

/** Unix time in ms with a fraction, which `Date.now` lacks. */
const preciseNow = () => performance.timeOrigin + performance.now();

const scopes = new Map<ScopeName, ScopeState>();
const loggers = new Map<ScopeName, Logger>();
for (const name of [...LOG_SCOPES['ctl-discovery'], ...LOG_SCOPES['ctl-agent']]) {
  if (name === 'all') continue;
  const defaults: ScopeSettings = { name, outputLevel: 'warn', stackLevel: 'none', caller: false };
  scopes.set(name, { name, defaults, output: RANK.warn, stack: RANK.none, caller: false });
}

/** What follows the log, beside its targets. */
const followers = new Set<(record: LogRecord) => void>();

let now: () => number = preciseNow;
let json = false;
let sinks: readonly LogSink[] | undefined;

/** The logger of a scope, always the same one. */
export function getScope(name: ScopeName): Logger {
  const known = loggers.get(name);
  if (known !== undefined) return known;
  const logger = makeLogger(stateOf(name));
  loggers.set(name, logger);
  return logger;
}

/**
 * Applies the logging flags. Throws when a target cannot be opened; the previous targets are used then.
 * @param clock Unix time in ms
 */
export function configureLogging(options: LoggingOptions, clock: () => number = preciseNow): void {
  const opened: LogSink[] = [];
  const notice = (dropped: number) => dropRecord(dropped, options.json, clock);
  try {
    for (const target of new Set(options.targets)) opened.push(openSink(target, notice));
    if (options.rotate !== undefined) opened.push(openRotatingSink(options.rotate, notice, clock));
  } catch (error) {
    for (const sink of opened) sink.close();
    throw error;
  }
  closeLogging();
  now = clock;
  json = options.json;
  sinks = opened;
  process.on('exit', flushAtExit);
  for (const state of scopes.values()) {
    state.output = RANK[options.outputLevels.get(state.name) ?? 'info'];
    state.stack = RANK[options.stackLevels.get(state.name) ?? 'none'];
    state.caller = options.callerScopes.has(state.name);
    state.defaults = scopeSettings(state.name);
  }
}

/** Calls `follower` with each record that is written. Returns a function that stops this. */
export function followLog(follower: (record: LogRecord) => void): () => void {
  followers.add(follower);
  return () => followers.delete(follower);
}

/** Sets the lowest level that a scope writes. */
export function setLevel(scope: ScopeName, level: LogLevel): void {
  stateOf(scope).output = RANK[level];
}

/** Sets the lowest level at which records of a scope have a stack trace. */
export function setStackLevel(scope: ScopeName, level: LogLevel): void {
  stateOf(scope).stack = RANK[level];
}

/** Turns caller information of a scope on or off. */
export function setCaller(scope: ScopeName, caller: boolean): void {
  stateOf(scope).caller = caller;
}

/** The current settings of a scope. */
export function scopeSettings(scope: ScopeName): ScopeSettings {
  const state = stateOf(scope);
  return {
    name: scope,
    outputLevel: LOG_LEVELS[state.output] ?? 'none',
    stackLevel: LOG_LEVELS[state.stack] ?? 'none',
    caller: state.caller,
  };
}

/** The settings of one scope as the logging flags say. */
export function scopeDefaults(scope: ScopeName): ScopeSettings {
  return stateOf(scope).defaults;
}

/** Writes buffered records and closes the targets. Later records go to stderr. */
export function closeLogging(): void {
  for (const sink of sinks ?? []) sink.close();
  sinks = undefined;
  json = false;
  now = preciseNow;
  process.off('exit', flushAtExit);
}

function flushAtExit(): void {
  for (const sink of sinks ?? []) sink.close();
}

function stateOf(name: ScopeName): ScopeState {
  const state = scopes.get(name);
  if (state === undefined) throw new CtlError('invalid_argument', `unknown log scope ${name}`);
  return state;
}

function makeLogger(state: ScopeState): Logger {
  const logger: Logger = {
    debug(message, fields) {
      if (state.output <= RANK.debug) emit(state, 'debug', message, fields, logger.debug);
    },
    info(message, fields) {
      if (state.output <= RANK.info) emit(state, 'info', message, fields, logger.info);
    },
    warn(message, fields) {
      if (state.output <= RANK.warn) emit(state, 'warn', message, fields, logger.warn);
    },
    error(message, fields) {
      if (state.output <= RANK.error) emit(state, 'error', message, fields, logger.error);
    },
    fatal(message, fields) {
      if (state.output <= RANK.fatal) emit(state, 'fatal', message, fields, logger.fatal);
      for (const sink of sinks ?? []) sink.flush();
    },
    enabled: (level) => state.output <= RANK[level],
  };
  return logger;
}

function emit(
  state: ScopeState,
  level: MessageLevel,
  message: string,
  fields: Fields | undefined,
  entry: (message: string, fields?: Fields) => void,
): void {
  const wantsStack = state.stack <= RANK[level];
  const frames = wantsStack || state.caller ? framesAbove(entry).slice(0, wantsStack ? undefined : 1) : [];
  const locations = frames.map(sourceFrame);
  const record: LogRecord = {
    time: now(),
    level,
    scope: state.name,
    message,
    fields,
    caller: state.caller ? shortCaller(locations[0]) : undefined,
    stack: wantsStack ? locations.join('\n') : undefined,
  };
  for (const follower of followers) follower(record);
  const line = json ? formatJson(record) : formatText(record);
  if (sinks === undefined) process.stderr.write(line);
  else for (const sink of sinks) sink.write(line);
}

/** The stack frames of the caller of `entry`. */
function framesAbove(entry: (message: string, fields?: Fields) => void): string[] {
  const holder: { stack?: string } = {};
  Error.captureStackTrace(holder, entry);
  return (holder.stack ?? '').split('\n').slice(1);
}

/** Folder, file and line of a stack frame: `logging/logging.ts:12`. */
function shortCaller(frame: string | undefined): string | undefined {
  const match = /([^/(]+\/)?([^/(]+):(\d+):\d+\)?$/.exec(frame ?? '');
  return match === null ? undefined : `${match[1] ?? ''}${match[2]}:${match[3]}`;
}

function dropRecord(dropped: number, asJson: boolean, clock: () => number): string {
  const record: LogRecord = {
    time: clock(),
    level: 'warn',
    scope: 'default',
    message: 'log records were dropped: the target was too slow or full',
    fields: { dropped },
    caller: undefined,
    stack: undefined,
  };
  return asJson ? formatJson(record) : formatText(record);
}
