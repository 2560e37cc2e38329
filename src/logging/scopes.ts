/**
 * The log scopes of both programs and the log levels, as the specification lists them (ctl-discovery "Discovery log
 * scopes", ctl-agent "Common logging flags"). The parser of the logging flags, the loggers and the introspection page
 * all come from these tables.
 */

export type ProgramName = 'ctl-agent' | 'ctl-discovery';

/** Log scopes per program. `all` stands for every scope in a flag; nothing logs under it. */
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

/** A scope that code can log under. */
export type ScopeName = Exclude<(typeof LOG_SCOPES)[ProgramName][number], 'all'>;

/** Levels from the most to the least talkative; `none` shows nothing. A level shows itself and everything after it. */
export const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'fatal', 'none'] as const;

export type LogLevel = (typeof LOG_LEVELS)[number];

/** A level that a message can have. */
export type MessageLevel = Exclude<LogLevel, 'none'>;

export function isLogLevel(text: string): text is LogLevel {
  return LOG_LEVELS.some((level) => level === text);
}
