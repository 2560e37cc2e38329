/**
 * Parsers of `--log_output_level`, `--log_stacktrace_level` and `--log_caller`.
 */
import { CtlError } from '../core/errors.ts';
import { isLogLevel, LOG_LEVELS, LOG_SCOPES, type LogLevel, type ProgramName, type ScopeName } from './scopes.ts';

/** The scopes of a program that have loggers: all but `all`. */
export function loggingScopes(program: ProgramName): readonly ScopeName[] {
  const names: readonly (ScopeName | 'all')[] = LOG_SCOPES[program];
  return names.filter((name) => name !== 'all');
}

/**
 * Parses comma-separated `<scope>:<level>` pairs. A level without a scope applies to the scope `default`; `all` sets
 * every scope. A later pair overrides an earlier one: `all:warn,ads:debug` sets every scope to warn except ads. Throws
 * a `CtlError` of one line that names the unknown scope or level.
 */
export function parseScopeLevels(text: string, program: ProgramName): ReadonlyMap<ScopeName, LogLevel> {
  const levels = new Map<ScopeName, LogLevel>();
  for (const pair of splitList(text)) {
    const colon = pair.indexOf(':');
    const level = pair.slice(colon + 1).trim();
    const scope = colon < 0 ? 'default' : pair.slice(0, colon).trim();
    if (!isLogLevel(level))
      throw new CtlError(
        'invalid_argument',
        `unknown log level ${JSON.stringify(level)}, expected ${LOG_LEVELS.join(', ')}`,
      );
    for (const name of namedScopes(scope, program)) levels.set(name, level);
  }
  return levels;
}

/** Parses comma-separated scopes. Throws a `CtlError` of one line that names the unknown scope. */
export function parseScopeList(text: string, program: ProgramName): ReadonlySet<ScopeName> {
  return new Set(splitList(text).flatMap((name) => namedScopes(name, program)));
}

function namedScopes(name: string, program: ProgramName): readonly ScopeName[] {
  const known = loggingScopes(program);
  if (name === 'all') return known;
  const scope = known.find((candidate) => candidate === name);
  if (scope === undefined) throw new CtlError('invalid_argument', `unknown log scope ${JSON.stringify(name)}`);
  return [scope];
}

function splitList(text: string): string[] {
  return text
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');
}
