/**
 * The two error classes of the product. `CtlError` reports a mistake of a user or a peer, or a problem of the
 * environment: every interface (gRPC, HTTP, command line, admission) maps its code, and shows one clear line instead of
 * a stack trace. `InternalError` reports a bug: it is shown with its stack trace.
 */

/** Canonical codes; names as in gRPC (https://grpc.io/docs/guides/status-codes/), the most common interface. */
export type CtlErrorCode =
  | 'invalid_argument'
  | 'not_found'
  | 'already_exists'
  | 'permission_denied'
  | 'unauthenticated'
  | 'deadline_exceeded'
  | 'resource_exhausted'
  | 'failed_precondition'
  | 'unimplemented'
  | 'unavailable'
  | 'internal';

/** Where a problem was found. Every member is optional: a flag has no file, a stream has no line. */
export interface ErrorLocation {
  readonly file?: string;
  /** 1-based line in `file`. */
  readonly line?: number;
  /** `Kind/namespace/name` of the resource that has the problem. */
  readonly resource?: string;
  /** Path inside the resource, such as `spec.http[0].route[1].weight`. */
  readonly field?: string;
}

/** A problem with a code and a location; `message` names in one line the problem and what was expected. */
export class CtlError extends Error {
  readonly code: CtlErrorCode;
  readonly location: ErrorLocation;

  constructor(code: CtlErrorCode, message: string, location: ErrorLocation = {}, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'CtlError';
    this.code = code;
    this.location = location;
  }

  /** One line for a message: `file:line: Kind/ns/name: field: what was expected`. */
  oneLine(): string {
    const { file, line, resource, field } = this.location;
    const position = file === undefined ? undefined : line === undefined ? file : `${file}:${line}`;
    const parts = [position, resource, field, this.message].filter((part) => part !== undefined && part !== '');
    return parts.join(': ').replaceAll('\n', ' ');
  }
}

/** A bug in this program: a state that its own code should have made impossible. */
export class InternalError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'InternalError';
  }
}

/** The message of a thrown value. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The system's code of a failed call, such as `ENOENT`; undefined for all other errors. */
export function errnoOf(error: unknown): string | undefined {
  if (error instanceof CtlError || !(error instanceof Error) || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}

/** A thrown value as one line for a log, with the location if it is a CtlError. */
export function oneLineOf(error: unknown): string {
  return error instanceof CtlError ? error.oneLine() : messageOf(error).replaceAll('\n', ' ');
}

/** A thrown value as an Error. */
export function toError(error: unknown): Error {
  return error instanceof Error ? error : new InternalError(String(error));
}

/** A thrown value as a CtlError: anything else gets the code `internal`. */
export function toCtlError(error: unknown): CtlError {
  return error instanceof CtlError ? error : new CtlError('internal', messageOf(error), {}, error);
}
