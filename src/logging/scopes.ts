/**
 * The log scopes of both programs and the log levels. The names are those of Istio 1.7. The parser of the logging
 * flags, the loggers and the introspection page use these tables.
 */

export type ProgramName = 'ctl-agent' | 'ctl-discovery';

/** The log scopes of each program. In a flag `all` means every scope; there is no logger of this name. */
export const LOG_SCOPES = {
  'ctl-agent': [
    'ads',
    'adsc',
    'all',
    'authn',
    'authorization',
    'cache',
    'caclient',
    'default',
    'cloudcred',
    'cloudca',
    'mockcred',
    'model',
    'sds',
    'secretfetcher',
    'spiffe',
    'stsclient',
    'stsserver',
    'token',
    'validation',
    'validationController',
  ],
  'ctl-discovery': [
    'ads',
    'adsc',
    'all',
    'analysis',
    'attributes',
    'authn',
    'authorization',
    'cache',
    'default',
    'grpcAdapter',
    'orch',
    'mcp',
    'model',
    'pkica',
    'processing',
    'resource',
    'rootcertrotator',
    'secretcontroller',
    'secretfetcher',
    'serverca',
    'source',
    'spiffe',
    'status',
    'validation',
    'validationController',
    'validationServer',
  ],
} as const satisfies Record<ProgramName, readonly string[]>;

/** A scope that has a logger. */
export type ScopeName = Exclude<(typeof LOG_SCOPES)[ProgramName][number], 'all'>;

/** Levels in order of severity. A level shows its own messages and all more severe ones; `none` shows nothing. */
export const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'fatal', 'none'] as const;

export type LogLevel = (typeof LOG_LEVELS)[number];

/** A level that a message can have. */
export type MessageLevel = Exclude<LogLevel, 'none'>;

export function isLogLevel(text: string): text is LogLevel {
  return LOG_LEVELS.some((level) => level === text);
}
