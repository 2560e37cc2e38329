/** Errors of commands that ask another program. */

import { CtlError } from '../core/errors.ts';

/** The program could not give what the user asked for, for a reason outside it: exit code 1 and one line. */
export function unavailable(message: string, cause?: unknown): CtlError {
  return new CtlError('unavailable', message, {}, cause);
}

/** A failure that has an exit code of its own; others have 1. */
export class FailureWithCode extends CtlError {
  readonly exitCode: number;

  constructor(exitCode: number, error: CtlError) {
    super(error.code, error.message, error.location, error);
    this.exitCode = exitCode;
  }
}
