/**
 * Where a Secret holds what TLS needs: key pairs and certificate authorities, in the forms that tools of the field
 * write. The check on the way in (`validate/secret.ts`) and generation both find them by this.
 *
 *   kubernetes.io/tls   tls.crt  tls.key  ca.crt  ca.crl  tls.ocsp-staple
 *   Opaque              cert     key      cacert  crl
 */
import type { SecretContent } from './schema/core.ts';

/** Names of the entries that make up a key pair. */
interface KeyPairFields {
  readonly certificate: string;
  readonly key: string;
  readonly staple: string | undefined;
}

/** Names of the entries that say whose certificates hold. */
interface AuthorityFields {
  readonly authorities: string;
  readonly revoked: string | undefined;
}

/** The orchestrator's type for key pairs. */
export const TLS_TYPE = 'kubernetes.io/tls';

const TYPES: ReadonlySet<string> = new Set([TLS_TYPE, 'Opaque', '']);
const STAPLE = 'tls.ocsp-staple';

/** The key pair of a Secret; undefined for one that has none, or is of a type that is for something else. */
export function keyPairOf(content: SecretContent): KeyPairFields | undefined {
  if (!TYPES.has(content.type ?? '')) return undefined;
  const staple = has(content, STAPLE) ? STAPLE : undefined;
  if (has(content, 'cert') && has(content, 'key')) return { certificate: 'cert', key: 'key', staple };
  if (has(content, 'tls.crt') && has(content, 'tls.key')) return { certificate: 'tls.crt', key: 'tls.key', staple };
  return undefined;
}

/** The certificate authorities of a Secret, and what they have revoked; undefined as for {@link keyPairOf}. */
export function authoritiesOf(content: SecretContent): AuthorityFields | undefined {
  if (!TYPES.has(content.type ?? '')) return undefined;
  const authorities = ['cacert', 'ca.crt'].find((name) => has(content, name));
  if (authorities === undefined) return undefined;
  return { authorities, revoked: ['crl', 'ca.crl'].find((name) => has(content, name)) };
}

/** Tools write entries that they will fill later: an empty one is none. */
function has({ data, stringData }: SecretContent, name: string): boolean {
  return (stringData?.[name] ?? data?.[name] ?? '') !== '';
}

/** Bytes of an entry; undefined when it is missing or no base64. */
export function secretBytes({ data, stringData }: SecretContent, name: string): Uint8Array | undefined {
  const text = stringData?.[name];
  if (text !== undefined) return new TextEncoder().encode(text);
  const encoded = data?.[name];
  if (encoded === undefined) return undefined;
  try {
    // Unlike Buffer's own, this reader knows what is no base64.
    return Buffer.from(atob(encoded), 'latin1');
  } catch {
    return undefined;
  }
}
