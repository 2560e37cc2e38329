/** The error for a mistake in a flag or variable: a program prints it as one line and exits with code 1. */
import { CtlError } from '../core/errors.ts';

/** A mistake of the user on the command line or in the environment. */
export function usageError(message: string, cause?: unknown): CtlError {
  return new CtlError('invalid_argument', message, {}, cause);
}
