/**
 * Where a Secret has the parts that TLS needs: key pairs and certificate authorities, in the formats that common tools
 * write. Validation, generation and the agents of gateways find them through this file.
 *
 * kubernetes.io/tls: `tls.crt`, `tls.key`, `ca.crt`, `ca.crl`, `tls.ocsp-staple`
 *
 * Opaque: `cert`, `key`, `cacert`, `crl`
 *
 * The authorities that belong to the credential `name` are in the Secret `name-cacert`, or else in `name` itself.
 */
import { isDnsSubdomain } from '../dns-names.ts';

/** The content of a Secret that is read here. */
export interface SecretContent {
  readonly type?: string | undefined;
  /** Base64 by entry. */
  readonly data?: Readonly<Record<string, string>> | undefined;
  readonly stringData?: Readonly<Record<string, string>> | undefined;
}

/** Names of the entries that make up a key pair. */
export interface KeyPairFields {
  readonly certificate: string;
  readonly key: string;
  readonly staple: string | undefined;
}

/** Names of the entries that are certificate authorities and revocation lists. */
interface AuthorityFields {
  readonly authorities: string;
  readonly revoked: string | undefined;
}

/** The type of Kubernetes for key pairs. */
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

/** The bytes of a key pair. */
interface KeyPairBytes {
  readonly chain: Uint8Array;
  readonly key: Uint8Array;
  /** Undefined: the Secret has none. */
  readonly staple: Uint8Array | undefined;
}

/** Undefined as for {@link keyPairOf}, and if an entry is not base64. */
export function keyPairBytes(content: SecretContent): KeyPairBytes | undefined {
  const fields = keyPairOf(content);
  if (fields === undefined) return undefined;
  const chain = secretBytes(content, fields.certificate);
  const key = secretBytes(content, fields.key);
  const staple = fields.staple === undefined ? undefined : secretBytes(content, fields.staple);
  return chain === undefined || key === undefined ? undefined : { chain, key, staple };
}

/** The bytes of certificate authorities. */
interface AuthorityBytes {
  readonly trusted: Uint8Array;
  /** Undefined: the Secret has none. */
  readonly revoked: Uint8Array | undefined;
}

/** Undefined as for {@link authoritiesOf}, and if an entry is not base64. */
export function authorityBytes(content: SecretContent): AuthorityBytes | undefined {
  const fields = authoritiesOf(content);
  if (fields === undefined) return undefined;
  const trusted = secretBytes(content, fields.authorities);
  const revoked = fields.revoked === undefined ? undefined : secretBytes(content, fields.revoked);
  // Without a readable revocation list, revoked certificates would be accepted.
  if (trusted === undefined || (fields.revoked !== undefined && revoked === undefined)) return undefined;
  return { trusted, revoked };
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

/** Begins the SDS names of credentials. */
export const CREDENTIAL_SCHEME = 'kubernetes://';
/** Suffix of the Secret with the authorities that belong to a credential, and of their SDS name. */
export const AUTHORITIES_SUFFIX = '-cacert';

/**
 * The Secrets that may contain the authorities of a credential, in this order; either may be the name of the
 * credential.
 */
export function authoritiesNames(name: string): readonly [apart: string, beside: string] {
  const base = name.endsWith(AUTHORITIES_SUFFIX) ? name.slice(0, -AUTHORITIES_SUFFIX.length) : name;
  return [`${base}${AUTHORITIES_SUFFIX}`, base];
}

/** SDS name of a credential in the gateway's own namespace. */
export function sdsName(what: 'key pair' | 'authorities', name: string): string {
  return what === 'key pair' ? `${CREDENTIAL_SCHEME}${name}` : `${CREDENTIAL_SCHEME}${authoritiesNames(name)[0]}`;
}

/** Parses an SDS name; undefined for other names, including those with a namespace. */
export function parseSdsName(
  text: string,
): { readonly what: 'key pair' | 'authorities'; readonly name: string } | undefined {
  if (!text.startsWith(CREDENTIAL_SCHEME)) return undefined;
  const name = text.slice(CREDENTIAL_SCHEME.length);
  if (!isDnsSubdomain(name)) return undefined;
  return { what: name.endsWith(AUTHORITIES_SUFFIX) ? 'authorities' : 'key pair', name };
}
