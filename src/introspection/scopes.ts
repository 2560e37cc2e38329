/** `/scopej`: the log scopes of the program, whose levels can be changed at run time. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  isLogLevel,
  LOG_LEVELS,
  loggingScopes,
  type ProgramName,
  type ScopeName,
  type ScopeSettings,
  scopeDefaults,
  scopeSettings,
  setCaller,
  setLevel,
  setStackLevel,
} from '../logging/index.ts';
import { jsonBody, sendJson, sendText } from './http.ts';

/**
 * Answers `/scopej` and `/scopej/NAME`.
 * @param mayChange rejects when the caller may not change anything
 */
export async function answerScopes(
  program: ProgramName,
  name: string,
  request: IncomingMessage,
  response: ServerResponse,
  mayChange: () => Promise<void>,
): Promise<void> {
  const known = loggingScopes(program);
  const reads = request.method === 'GET' || request.method === 'HEAD';
  if (name === '') {
    if (!reads) return sendText(response, 405, 'to change a scope, name it: /scopej/<scope>');
    return sendJson(response, 200, known.map(shownScope));
  }
  const scope = known.find((candidate) => candidate === name);
  if (scope === undefined) return sendText(response, 404, `unknown log scope ${JSON.stringify(name)}`);
  if (request.method === 'PUT') {
    await mayChange();
    // `istioctl admin log` names no type.
    if (!/^application\/json\b/.test(request.headers['content-type'] ?? 'application/json')) {
      return sendText(response, 415, 'send the change as application/json');
    }
    const problem = changeScope(scope, await jsonBody(request));
    if (problem !== '') return sendText(response, 400, problem);
    // The only status that `istioctl admin log` takes for success.
    return sendJson(response, 202, shownScope(scope));
  }
  if (!reads) return sendText(response, 405, 'only GET and PUT are supported');
  return sendJson(response, 200, shownScope(scope));
}

/** `default`: what the flags of the program say. */
function shownScope(scope: ScopeName) {
  return { name: scope, ...shownSettings(scopeSettings(scope)), default: shownSettings(scopeDefaults(scope)) };
}

function shownSettings({ outputLevel, stackLevel, caller }: ScopeSettings) {
  return { output_level: outputLevel, stack_trace_level: stackLevel, log_callers: caller };
}

/** Applies a change to a scope, or nothing when a part is invalid. Returns the problem, '' for none. */
function changeScope(scope: ScopeName, change: Readonly<Record<string, unknown>>): string {
  const { output_level, stack_trace_level, log_callers } = change;
  for (const level of [output_level, stack_trace_level]) {
    if (level !== undefined && !(typeof level === 'string' && isLogLevel(level))) {
      return `unknown log level ${JSON.stringify(level)}, expected ${LOG_LEVELS.join(', ')}`;
    }
  }
  if (log_callers !== undefined && typeof log_callers !== 'boolean') return 'log_callers is not true or false';
  if (typeof output_level === 'string' && isLogLevel(output_level)) setLevel(scope, output_level);
  if (typeof stack_trace_level === 'string' && isLogLevel(stack_trace_level)) setStackLevel(scope, stack_trace_level);
  if (log_callers !== undefined) setCaller(scope, log_callers);
  return '';
}
