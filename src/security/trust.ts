/**
 * The roots by which client certificates are judged, per trust domain: a root vouches for its own trust domain only, or
 * else whoever runs a foreign mesh could name itself into this one.
 */
import { CtlError } from '../core/errors.ts';
import { type Certificate, readPemCertificates } from './certificate.ts';

export class TrustBundles {
  /** By trust domain and by who says so, because several may vouch for one domain. */
  readonly #roots = new Map<string, Map<string, readonly Certificate[]>>();
  #generation = 0;

  /** Changes whenever a root comes or goes. */
  get generation(): number {
    return this.#generation;
  }

  /** Replaces what `source` says of a trust domain. */
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
 * Roots out of PEM texts. Throws CtlError invalid_argument, naming `from`, for what is no certificate of an authority.
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
  throw new CtlError('invalid_argument', 'holds a certificate that is not one of an authority', { field: from });
}
