/** Starts logging according to the logging flags. */
import { messageOf } from '../core/errors.ts';
import {
  configureLogging,
  type LoggingOptions,
  type ProgramName,
  parseScopeLevels,
  parseScopeList,
  rotateMaxBytes,
} from '../logging/index.ts';
import { type LoggingSettings, usageError } from '../settings/index.ts';

const DAY_MS = 86_400_000;

/** Configures logging by the flags. Throws a `CtlError` when a target cannot be opened. */
export function startLogging(settings: LoggingSettings, program: ProgramName): void {
  try {
    configureLogging(loggingOptions(settings, program));
  } catch (error) {
    throw usageError(`cannot open a log target: ${messageOf(error)}`, error);
  }
}

/** The options of `configureLogging`, from the logging flags. */
function loggingOptions(settings: LoggingSettings, program: ProgramName): LoggingOptions {
  const options: LoggingOptions = {
    json: settings.logAsJson,
    callerScopes: parseScopeList(settings.logCaller, program),
    outputLevels: parseScopeLevels(settings.logOutputLevel, program),
    stackLevels: parseScopeLevels(settings.logStacktraceLevel, program),
    targets: settings.logTarget,
  };
  if (settings.logRotate === '') return options;
  const rotate = {
    path: settings.logRotate,
    maxBytes: rotateMaxBytes(settings.logRotateMaxSize),
    maxAgeMs: settings.logRotateMaxAge * DAY_MS,
    maxBackups: settings.logRotateMaxBackups,
  };
  return { ...options, rotate };
}
