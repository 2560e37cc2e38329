/** Errors of settings: what a user got wrong in a flag or variable. A program shows one line and exits with 1. */
import { CtlError } from '../core/errors.ts';

/** What a user got wrong on the command line or in the environment. */
export function usageError(message: string, cause?: unknown): CtlError {
  return new CtlError('invalid_argument', message, {}, cause);
}
