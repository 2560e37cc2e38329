/** Logging of all programs: scopes with their levels, targets and rotation. */

export { recordText } from './format.ts';
export { type LimitedLog, limitLog } from './limit.ts';
export {
  closeLogging,
  configureLogging,
  followLog,
  getScope,
  type Logger,
  type LoggingOptions,
  type ScopeSettings,
  scopeDefaults,
  scopeSettings,
  setCaller,
  setLevel,
  setStackLevel,
} from './logging.ts';
export { rotateMaxBytes } from './rotate.ts';
export { isLogLevel, LOG_LEVELS, LOG_SCOPES, type ProgramName, type ScopeName } from './scopes.ts';
export { type LogSink, openSink } from './sink.ts';
export { loggingScopes, parseScopeLevels, parseScopeList } from './spec.ts';
