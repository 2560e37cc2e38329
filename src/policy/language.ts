/** MESH_LANG: the language of expressions of all documents. The values are those of Istio 1.7 (ISTIO_LANG). */
import { CtlError } from '../core/errors.ts';
import { LANGUAGES, type Language } from '../expressions/index.ts';

/**
 * Undefined for an empty value: each document's annotation selects its language, by default CEXL. Throws CtlError
 * `invalid_argument` for an unknown value.
 */
export function policyLanguage(text: string): Language | undefined {
  if (text === '') return undefined;
  const known = LANGUAGES.find((each) => each === text);
  if (known !== undefined) return known;
  const message = `${JSON.stringify(text.slice(0, 40))} is not one of ${LANGUAGES.join(', ')}`;
  throw new CtlError('invalid_argument', message, { field: 'MESH_LANG' });
}
