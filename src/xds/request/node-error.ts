/** The error about a field of a node. */
import { CtlError } from '../../core/errors.ts';

export function invalid(message: string, field = 'node'): CtlError {
  return new CtlError('invalid_argument', message, { field });
}
