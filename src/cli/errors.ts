/** Errors of commands that call another program. */

import { CtlError } from '../core/errors.ts';

/** The program could not do what the user asked for, for an external reason: exit code 1 and one line. */
export function unavailable(message: string, cause?: unknown): CtlError {
  return new CtlError('unavailable', message, {}, cause);
}

/** A failure with its own exit code; others have exit code 1. */
export class FailureWithCode extends CtlError {
  readonly exitCode: number;

  constructor(exitCode: number, error: CtlError) {
    super(error.code, error.message, error.location, error);
    this.exitCode = exitCode;
  }
}
