/** The first problem that a schema found. */
import type { z } from 'zod';
import { UNKNOWN_FIELD, type ValidationError, validationErrorsOf } from '../../resources/index.ts';

export function problemOf(error: z.ZodError): ValidationError {
  const [first = { path: [], message: UNKNOWN_FIELD }] = validationErrorsOf(error.issues);
  return first;
}
