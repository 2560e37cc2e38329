/** Errors of the command line: what a user got wrong or what could not be done, shown as one line with exit code 1. */

import { CtlError } from '../core/errors.ts';

/** What a user got wrong on the command line or in the environment. */
export function usageError(message: string, cause?: unknown): CtlError {
  return new CtlError('invalid_argument', message, {}, cause);
}

/** What the user asked for and could not be had, the reason being outside the program. */
export function unavailable(message: string, cause?: unknown): CtlError {
  return new CtlError('unavailable', message, {}, cause);
}

/** The message of whatever was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
