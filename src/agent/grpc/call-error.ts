/** Describes the error of a grpc-js call in one line for operators. */
import type { ServiceError } from '@grpc/grpc-js';
import { CtlError, type CtlErrorCode, oneLineOf } from '../../core/errors.ts';

const CODES: Readonly<Record<number, CtlErrorCode>> = {
  3: 'invalid_argument',
  5: 'not_found',
  6: 'already_exists',
  7: 'permission_denied',
  8: 'resource_exhausted',
  9: 'failed_precondition',
  12: 'unimplemented',
  13: 'internal',
  16: 'unauthenticated',
};

/** The beginnings of grpc-js's own messages about a call, and their meaning. All other messages are from the server. */
const LOCAL: readonly (readonly [beginning: RegExp, meaning: (rest: string, timeoutMs: number) => string])[] = [
  [/^No connection established\. Last error: /, (rest) => `cannot be reached: ${connectionProblem(rest)}`],
  [/^Name resolution failed /, () => 'cannot be reached: its name cannot be resolved'],
  [/^Deadline exceeded after /, (_rest, timeoutMs) => `did not respond within ${timeoutMs} ms`],
  [/^Received HTTP status code (?!200$)/, (rest) => `returned HTTP ${rest}`],
  [
    /^(Connection dropped|Stream refused by server|Received (RST_STREAM|HTTP)|Channel closed|Call cancelled$|Cancelled on client$|[rw][a-z]+ E[A-Z]+)/,
    () => 'cannot be reached: the connection was closed before the response was complete',
  ],
];

const MAX_ANSWER_CHARACTERS = 1_000;

/** @param name the server's address, for the message */
export function callError(error: unknown, name: string, timeoutMs = 0): CtlError {
  if (error instanceof CtlError) return error;
  const { code, details = '' } = (error ?? {}) as Partial<ServiceError>;
  if (typeof code !== 'number')
    return new CtlError('unavailable', `${name} cannot be reached: ${oneLineOf(error)}`, {}, error);
  const problem = localProblem(details, timeoutMs);
  if (problem !== undefined) return new CtlError('unavailable', `${name} ${problem}`, {}, error);
  const answer = shownAnswer(details) || `gRPC status ${code}`;
  return new CtlError(CODES[code] ?? 'unavailable', `${name} returned: ${answer}`, {}, error);
}

/** Whether the error of a call is a status that the server has sent: also UNAVAILABLE may be one. */
export function isStatusOfServer(error: unknown): boolean {
  const { code, details = '' } = (error ?? {}) as Partial<ServiceError>;
  return typeof code === 'number' && localProblem(details) === undefined;
}

/** What a message of grpc-js says about the connection; undefined for the messages of servers. */
function localProblem(details: string, timeoutMs = 0): string | undefined {
  for (const [beginning, meaning] of LOCAL) {
    const [found] = beginning.exec(details) ?? [];
    if (found !== undefined) return meaning(details.slice(found.length), timeoutMs);
  }
  return undefined;
}

/** A server may send any text: at most a few lines of it are shown, and no token that it repeats. */
function shownAnswer(details: string): string {
  const text = details.slice(0, MAX_ANSWER_CHARACTERS).replaceAll(/\s+/g, ' ');
  // Each JWT begins with these characters, because its header is a JSON object.
  return text.replaceAll(/\beyJ[\w-]+\.[\w-]+(?:\.[\w-]*)?/g, '<token>');
}

/** @param text for example `Error: connect ECONNREFUSED 127.0.0.1:1. Resolution note: ` */
function connectionProblem(text: string): string {
  const [, openssl] = /:error:[0-9A-F]+:[^:]*:[^:]*:([^:]+):/.exec(text) ?? [];
  if (openssl !== undefined) return openssl;
  if (text.includes('ECONNREFUSED')) return 'connection refused';
  const problem = text
    .replace(/\. Resolution note: [\s\S]*$/, '')
    .replace(/^Error( \[[A-Z_]+\])?: /, '')
    .replace(/ \(\d{4}-[^)]*\)$/, '')
    // Advice about Node's root certificates, which are not used.
    .replace(/; if the root CA is installed[\s\S]*$/, '')
    .replaceAll(/\s+/g, ' ')
    .trim();
  return problem === '' || problem === 'Failed to connect' ? 'the connection was closed' : problem;
}
