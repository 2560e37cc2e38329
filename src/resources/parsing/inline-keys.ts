import { isObject } from '../../core/objects.ts';

/**
 * Keys in a policy itself (`jwks` of a RequestAuthentication's rule): which of them Envoy can verify tokens with. Envoy
 * refuses a key set without a readable key, and with it the whole listener. Validation and generation both use this
 * file, so that generation can send whatever validation accepts. It does not use Node APIs, because generation must
 * not.
 */

/** Limit of Envoy's library; issuers have a handful of keys. */
const MAX_KEYS = 100;
const MAX_LENGTH = 256 * 1024;
/** RFC 7518 section 3.3. */
const MIN_RSA_BITS = 2048;
const MAX_RSA_BITS = 16_384;
const MAX_RSA_EXPONENT_BITS = 33;
const ED25519_BYTES = 32;

/** Short Weierstrass curves (SEC 2): a point is on it when y² = x³ - 3x + b modulo p. */
interface Curve {
  readonly alg: string;
  readonly bytes: number;
  readonly p: bigint;
  readonly b: bigint;
}

const CURVES: Readonly<Record<string, Curve>> = {
  'P-256': {
    alg: 'ES256',
    bytes: 32,
    p: 2n ** 256n - 2n ** 224n + 2n ** 192n + 2n ** 96n - 1n,
    b: 0x5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604bn,
  },
  'P-384': {
    alg: 'ES384',
    bytes: 48,
    p: 2n ** 384n - 2n ** 128n - 2n ** 96n + 2n ** 32n - 1n,
    b: 0xb3312fa7e23ee7e4988e056be3f82d19181d9c6efe8141120314088f5013875ac656398d8a2ed19d2a85c8edd3ec2aefn,
  },
  'P-521': {
    alg: 'ES512',
    bytes: 66,
    p: 2n ** 521n - 1n,
    b: 0x051953eb9618e1c9a1f929a21a0b68540eea2da725b99b315f3b8b489918ef109e156193951ec7e937b1652c0bd3bb1bf073573df883d2c34f1ef451fd46b503f00n,
  },
};

type Members = Readonly<Record<string, unknown>>;
type PublicKey = Readonly<Record<string, string>>;

/** Members that only private and symmetric keys have (RFC 7518 section 6). */
const PRIVATE_MEMBERS = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k'];

/**
 * Why a key set reveals the key that signs tokens: everyone who may read the policy could sign with a symmetric or
 * private key. Undefined if it does not.
 */
export function secretInKeys(text: string): string | undefined {
  for (const [index, key] of keysIn(text).entries()) {
    if (!isObject(key)) continue;
    if (key.kty === 'oct') return `keys[${index}] is symmetric (kty oct)`;
    const member = PRIVATE_MEMBERS.find((name) => name in key);
    if (member !== undefined) return `keys[${index}] has the private member ${member}`;
  }
  return undefined;
}

/**
 * The usable keys as a key set (JSON); undefined when there are none. Keys with private members, and members that Envoy
 * does not read, are left out.
 */
export function usableInlineKeys(text: string): string | undefined {
  if (text.length > MAX_LENGTH) return undefined;
  const keys = keysIn(text)
    .slice(0, MAX_KEYS)
    .map(usableKey)
    .filter((key) => key !== undefined);
  return keys.length === 0 ? undefined : JSON.stringify({ keys });
}

function keysIn(text: string): readonly unknown[] {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) && Array.isArray(value.keys) ? value.keys : [];
  } catch {
    return [];
  }
}

function usableKey(key: unknown): PublicKey | undefined {
  if (!isObject(key) || PRIVATE_MEMBERS.some((member) => member in key)) return undefined;
  const { kid, alg, use } = key;
  if (![kid, alg, use].every((text) => text === undefined || typeof text === 'string')) return undefined;
  if (use !== undefined && use !== 'sig') return undefined;
  const kind = typeof key.kty === 'string' && Object.hasOwn(KINDS, key.kty) ? KINDS[key.kty] : undefined;
  const read = kind?.(key);
  if (read === undefined || (typeof alg === 'string' && !read.algorithms.test(alg))) return undefined;
  return {
    kty: String(key.kty),
    ...(typeof kid === 'string' && { kid }),
    ...(typeof alg === 'string' && { alg }),
    ...read.members,
  };
}

interface Read {
  readonly members: PublicKey;
  readonly algorithms: RegExp;
}

/** By `kty` (RFC 7518 section 6.1, RFC 8037). */
const KINDS: Readonly<Record<string, (key: Members) => Read | undefined>> = {
  RSA: ({ n, e }) => {
    const [modulus, exponent] = [numberOf(n), numberOf(e)];
    if (typeof n !== 'string' || typeof e !== 'string' || modulus === undefined || exponent === undefined) return;
    const bits = modulus.toString(2).length;
    if (bits < MIN_RSA_BITS || bits > MAX_RSA_BITS || modulus % 2n === 0n) return;
    if (exponent < 3n || exponent % 2n === 0n || exponent.toString(2).length > MAX_RSA_EXPONENT_BITS) return;
    return { members: { n, e }, algorithms: /^(RS|PS)(256|384|512)$/ };
  },
  EC: ({ crv, x, y }) => {
    const curve = typeof crv === 'string' && Object.hasOwn(CURVES, crv) ? CURVES[crv] : undefined;
    const [px, py] = [numberOf(x), numberOf(y)];
    if (curve === undefined || px === undefined || py === undefined || !isOnCurve(curve, px, py)) return;
    if (typeof crv !== 'string' || typeof x !== 'string' || typeof y !== 'string') return;
    return { members: { crv, x, y }, algorithms: new RegExp(`^${curve.alg}$`) };
  },
  OKP: ({ crv, x }) => {
    if (crv !== 'Ed25519' || typeof x !== 'string' || bytesOf(x)?.length !== ED25519_BYTES) return;
    return { members: { crv, x }, algorithms: /^EdDSA$/ };
  },
};

function isOnCurve({ p, b }: Curve, x: bigint, y: bigint): boolean {
  return x < p && y < p && (y * y - (x * x * x - 3n * x + b)) % p === 0n;
}

/** Bytes in base64url without padding, as two hexadecimal digits each; undefined when the string is not base64url. */
function bytesOf(text: string): readonly string[] | undefined {
  if (!/^[\w-]+$/.test(text)) return undefined;
  try {
    const bytes = atob(text.replaceAll('-', '+').replaceAll('_', '/'));
    return Array.from(bytes, (byte) => byte.charCodeAt(0).toString(16).padStart(2, '0'));
  } catch {
    return undefined;
  }
}

function numberOf(text: unknown): bigint | undefined {
  if (typeof text !== 'string' || text.length > MAX_RSA_BITS / 4) return undefined;
  const bytes = bytesOf(text);
  return bytes === undefined ? undefined : BigInt(`0x${bytes.join('')}`);
}
