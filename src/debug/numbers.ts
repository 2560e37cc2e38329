/** Numbers in the parameters of pages. */
import { CtlError } from '../core/errors.ts';

/** A parameter that is a whole number. Throws CtlError invalid_argument. */
export function numberOf(query: URLSearchParams, name: string, otherwise: number): number {
  const text = query.get(name) ?? '';
  if (text === '') return otherwise;
  if (!/^\d{1,9}$/.test(text)) throw new CtlError('invalid_argument', `${name} is not a number: ${text.slice(0, 50)}`);
  return Number(text);
}
