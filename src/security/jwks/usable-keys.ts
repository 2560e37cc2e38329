/**
 * Selects the keys of a key set that can verify tokens (RFC 7517, RFC 7518, RFC 8037), and writes them in canonical
 * form with only the public members that Envoy reads. Envoy accepts a key set as a whole or not at all, so keys that it
 * cannot read are left out here, and one such key does not affect the others.
 *
 * Keys that prove nothing are left out as well: symmetric keys (`oct`), because anyone who can fetch the set could sign
 * with them, and keys with their private part, for the same reason.
 */
import { createPublicKey, type JsonWebKey } from 'node:crypto';
import { CtlError } from '../../core/errors.ts';
import { isObject } from '../../core/objects.ts';

/** Importing a key takes about 50 µs, and a megabyte may have thousands; issuers have a few. */
const MAX_KEYS = 100;

/**
 * Keys with longer names are left out. A set is kept here, in every worker, and in each Envoy once for every port: 100
 * RSA keys take 45 kB.
 */
const MAX_KID_LENGTH = 256;
const MAX_LENGTH = 64 * 1024;

/** RFC 7518 section 3.3, and the maximum of Envoy's library. */
const MIN_RSA_BITS = 2048;
const MAX_RSA_BITS = 16_384;

/** The largest exponent that Envoy's library accepts has 33 bits. */
const MAX_RSA_EXPONENT = 2n ** 33n;

/** Members that only private and symmetric keys have (RFC 7518 section 6). */
const PRIVATE_MEMBERS = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k'];

/** By key type, and by curve if there is one: the algorithms that Envoy verifies with such a key. */
const ALGORITHMS: Readonly<Record<string, readonly string[]>> = {
  RSA: ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
  'EC P-256': ['ES256'],
  'EC P-384': ['ES384'],
  'EC P-521': ['ES512'],
  'OKP Ed25519': ['EdDSA'],
};

type Members = Readonly<Record<string, unknown>>;

/** The member as a string; undefined when it is absent, null when it is not a string. */
function textOf(value: unknown): string | undefined | null {
  return value === undefined || typeof value === 'string' ? value : null;
}

function isForSignatures({ use, key_ops: operations }: Members): boolean {
  if (use !== undefined && use !== 'sig') return false;
  return operations === undefined || (Array.isArray(operations) && operations.includes('verify'));
}

/** The public members in canonical form; undefined if the key is invalid. */
function publicMembers(key: Members): JsonWebKey | undefined {
  try {
    const { kty, crv, n, e, x, y } = key;
    const read = createPublicKey({ key: { kty, crv, n, e, x, y } as JsonWebKey, format: 'jwk' });
    const { modulusLength: bits = MIN_RSA_BITS, publicExponent: exponent = 3n } = read.asymmetricKeyDetails ?? {};
    if (bits < MIN_RSA_BITS || bits > MAX_RSA_BITS) return undefined;
    if (exponent < 3n || exponent % 2n === 0n || exponent >= MAX_RSA_EXPONENT) return undefined;
    return read.export({ format: 'jwk' });
  } catch {
    return undefined;
  }
}

function usableKey(key: unknown): JsonWebKey | undefined {
  if (!isObject(key) || !isForSignatures(key)) return undefined;
  if (PRIVATE_MEMBERS.some((member) => member in key)) return undefined;
  const type = key.crv === undefined ? String(key.kty) : `${key.kty} ${key.crv}`;
  const algorithms = Object.hasOwn(ALGORITHMS, type) ? ALGORITHMS[type] : undefined;
  const alg = textOf(key.alg);
  const kid = textOf(key.kid);
  if (algorithms === undefined || alg === null || kid === null) return undefined;
  if (kid !== undefined && kid.length > MAX_KID_LENGTH) return undefined;
  if (alg !== undefined && !algorithms.includes(alg)) return undefined;
  const members = publicMembers(key);
  if (members === undefined) return undefined;
  return { ...members, ...(kid === undefined ? {} : { kid }), ...(alg === undefined ? {} : { alg }), use: 'sig' };
}

/** The JSON text of the key set with its usable keys, in order. Throws CtlError unavailable when there are none. */
export function usableKeys(document: unknown): string {
  const keys = isObject(document) ? document.keys : undefined;
  if (!Array.isArray(keys)) throw new CtlError('unavailable', 'did not return a JSON Web Key Set');
  if (keys.length === 0) throw new CtlError('unavailable', 'returned a key set without keys');
  const usable = keys
    .slice(0, MAX_KEYS)
    .map(usableKey)
    .filter((key) => key !== undefined);
  const text = JSON.stringify({ keys: usable });
  if (text.length > MAX_LENGTH) throw new CtlError('unavailable', `returned more than ${MAX_LENGTH} bytes of keys`);
  if (usable.length > 0) return text;
  const wanted = 'expected public keys of type RSA (2048 bits or more), EC (P-256, P-384, P-521), Ed25519';
  throw new CtlError('unavailable', `returned a key set without a usable key; ${wanted}`);
}
