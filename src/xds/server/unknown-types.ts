/**
 * Types that a stream asks for and that are not served: they are left unanswered, as if they had no content, and
 * reported once. A URL that is not a type of this API is an error.
 */
import { CtlError } from '../../core/errors.ts';

/** Most unknown types that are reported per stream. */
const MAX_REPORTED = 16;

export class UnknownTypes {
  readonly #known = new Set<string>();

  /** Whether to report the type. Throws CtlError invalid_argument for a URL that is not a type of xDS v3. */
  isNew(typeUrl: string): boolean {
    if (typeUrl === '')
      throw new CtlError('invalid_argument', 'an ADS request needs a type_url', { field: 'type_url' });
    if (!typeUrl.startsWith('type.googleapis.com/') || typeUrl.includes('/envoy.api.v2.'))
      throw new CtlError('invalid_argument', `${typeUrl.slice(0, 256)} is not an xDS v3 type`, { field: 'type_url' });
    if (this.#known.has(typeUrl) || this.#known.size >= MAX_REPORTED) return false;
    this.#known.add(typeUrl);
    return true;
  }
}
