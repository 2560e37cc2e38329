/**
 * The roots that verify client certificates, by trust domain: a root is valid for its own trust domain only, because
 * otherwise the operator of a foreign mesh could issue identities of this one.
 */
import { CtlError } from '../core/errors.ts';
import { type Certificate, readPemCertificates } from './certificate.ts';

export class TrustBundles {
  /** By trust domain and source: one domain may have several sources. */
  readonly #roots = new Map<string, Map<string, readonly Certificate[]>>();
  #generation = 0;

  /** Changes whenever a root is added or removed. */
  get generation(): number {
    return this.#generation;
  }

  /** Sets the roots that `source` provides for a trust domain. */
  set(trustDomain: string, source: string, roots: readonly Certificate[]): void {
    const sources = this.#roots.get(trustDomain) ?? new Map<string, readonly Certificate[]>();
    sources.set(source, roots);
    this.#roots.set(trustDomain, sources);
    this.#generation++;
  }

  roots(trustDomain: string): Certificate[] {
    return [...(this.#roots.get(trustDomain)?.values() ?? [])].flat();
  }
}

/**
 * Reads roots from PEM strings. Throws CtlError invalid_argument, naming `from`, for anything but certificates of an
 * authority.
 */
export function readRoots(from: string, pems: readonly string[]): Certificate[] {
  let roots: Certificate[];
  try {
    roots = pems.flatMap(readPemCertificates);
  } catch (error) {
    const reason = error instanceof CtlError ? error.message : String(error);
    throw new CtlError('invalid_argument', reason, { field: from }, error);
  }
  if (roots.every(({ ca }) => ca)) return roots;
  throw new CtlError('invalid_argument', 'holds a certificate that is not a CA certificate', { field: from });
}
