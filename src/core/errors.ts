/**
 * The one error class of meshd: a code that every border (gRPC, HTTP, command line, admission) can map, and the place
 * the fault was found in, so that a user gets one clear line instead of a stack trace.
 */

/**
 * Canonical codes; names as in gRPC (https://grpc.io/docs/guides/status-codes/), because that is the commonest border.
 */
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

/** Where a fault was found. Every member is optional: a flag has no file, a stream has no line. */
export interface ErrorLocation {
  readonly file?: string;
  /** 1-based line in `file`. */
  readonly line?: number;
  /** `Kind/namespace/name` of the resource at fault. */
  readonly resource?: string;
  /** Path inside the resource, such as `spec.http[0].route[1].weight`. */
  readonly field?: string;
}

/** A fault with a code and a location; `message` says what was expected in one line. */
export class CtlError extends Error {
  readonly code: CtlErrorCode;
  readonly location: ErrorLocation;

  constructor(code: CtlErrorCode, message: string, location: ErrorLocation = {}, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'CtlError';
    this.code = code;
    this.location = location;
  }

  /** One line for people: `file:line: Kind/ns/name: field: what was expected`. */
  oneLine(): string {
    const { file, line, resource, field } = this.location;
    const place = file === undefined ? undefined : line === undefined ? file : `${file}:${line}`;
    const parts = [place, resource, field, this.message].filter((part) => part !== undefined && part !== '');
    return parts.join(': ').replaceAll('\n', ' ');
  }
}
