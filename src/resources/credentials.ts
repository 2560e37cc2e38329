/**
 * Where a Secret has the parts that TLS needs: key pairs and certificate authorities, in the formats that common tools
 * write. Validation (`validate/secret.ts`) and generation both find them through this file.
 *
 * kubernetes.io/tls: `tls.crt`, `tls.key`, `ca.crt`, `ca.crl`, `tls.ocsp-staple`
 *
 * Opaque: `cert`, `key`, `cacert`, `crl`
 */
import type { SecretContent } from './schema/core.ts';

/** Names of the entries that make up a key pair. */
interface KeyPairFields {
  readonly certificate: string;
  readonly key: string;
  readonly staple: string | undefined;
}

/** Names of the entries that are certificate authorities and revocation lists. */
interface AuthorityFields {
  readonly authorities: string;
  readonly revoked: string | undefined;
}

/** The orchestrator's type for key pairs. */
export const TLS_TYPE = 'kubernetes.io/tls';

const TYPES: ReadonlySet<string> = new Set([TLS_TYPE, 'Opaque', '']);
const STAPLE = 'tls.ocsp-staple';

/** The key pair of a Secret; undefined for a Secret without one, or of a type that has another purpose. */
export function keyPairOf(content: SecretContent): KeyPairFields | undefined {
  if (!TYPES.has(content.type ?? '')) return undefined;
  const staple = has(content, STAPLE) ? STAPLE : undefined;
  if (has(content, 'cert') && has(content, 'key')) return { certificate: 'cert', key: 'key', staple };
  if (has(content, 'tls.crt') && has(content, 'tls.key')) return { certificate: 'tls.crt', key: 'tls.key', staple };
  return undefined;
}

/** The certificate authorities of a Secret, and their revocation lists; undefined as for {@link keyPairOf}. */
export function authoritiesOf(content: SecretContent): AuthorityFields | undefined {
  if (!TYPES.has(content.type ?? '')) return undefined;
  const authorities = ['cacert', 'ca.crt'].find((name) => has(content, name));
  if (authorities === undefined) return undefined;
  return { authorities, revoked: ['crl', 'ca.crl'].find((name) => has(content, name)) };
}

/** Tools write entries that they fill later: an empty one counts as missing. */
function has({ data, stringData }: SecretContent, name: string): boolean {
  return (stringData?.[name] ?? data?.[name] ?? '') !== '';
}

/** Bytes of an entry; undefined when it is missing or not base64. */
export function secretBytes({ data, stringData }: SecretContent, name: string): Uint8Array | undefined {
  const text = stringData?.[name];
  if (text !== undefined) return new TextEncoder().encode(text);
  const encoded = data?.[name];
  if (encoded === undefined) return undefined;
  try {
    // Unlike Buffer's, this decoder detects what is not base64.
    return Buffer.from(atob(encoded), 'latin1');
  } catch {
    return undefined;
  }
}
