/**
 * Verifies that a chain of certificates leads to a trusted root (the parts of RFC 5280 section 6 that apply to
 * workloads; X509-SVID section 5). Trust depends on the trust domain, which TLS libraries do not know, so the handshake
 * only proves possession of the leaf's key and the rest is decided here.
 */
import { CtlError } from '../core/errors.ts';
import { type Identity, parseSpiffeUri } from '../core/identity.ts';
import type { CertificateReader } from './authority-reader.ts';
import { type Certificate, readCertificate } from './certificate.ts';

/** Intermediates between leaf and root. */
const MAX_INTERMEDIATES = 4;

/** The maximum number of certificates of a handshake; legitimate clients send fewer. */
const MAX_CERTIFICATES = 10;

/**
 * Limits of keys that verify signatures before the chain is known to be trusted: an RSA key of 16,384 bits with a large
 * exponent would take milliseconds of the main thread per signature. No workload's key and no root's key is larger.
 */
const MAX_LEAF_RSA_BITS = 4096;
const MAX_CA_RSA_BITS = 8192;
const MAX_RSA_EXPONENT = 2n ** 32n;
const CURVES = ['prime256v1', 'secp384r1', 'secp521r1'];

export interface VerifiedChain {
  readonly identity: Identity;
  /** When the first certificate of the chain expires, epoch ms. */
  readonly expiresAt: number;
}

function refused(reason: string): CtlError {
  return new CtlError('unauthenticated', reason);
}

function checkNow({ notBefore, notAfter }: Certificate, what: string, now: number): void {
  if (now >= notAfter) throw refused(`${what} expired at ${new Date(notAfter).toISOString()}`);
  if (now < notBefore) throw refused(`${what} is not valid before ${new Date(notBefore).toISOString()}`);
}

function checkKey({ x509: { publicKey } }: Certificate, what: string, maxRsaBits: number): void {
  const { modulusLength = 0, publicExponent = 0n, namedCurve = '' } = publicKey.asymmetricKeyDetails ?? {};
  const fits =
    publicKey.asymmetricKeyType === 'rsa'
      ? modulusLength <= maxRsaBits && publicExponent < MAX_RSA_EXPONENT
      : publicKey.asymmetricKeyType === 'ed25519' || CURVES.includes(namedCurve);
  if (!fits) throw refused(`${what} is neither RSA of at most ${maxRsaBits} bits nor on a supported curve`);
}

function readIdentity(leaf: Certificate): Identity {
  const [uri, another] = leaf.uris;
  if (uri === undefined || another !== undefined)
    throw refused(`it has ${leaf.uris.length} URIs, expected exactly one`);
  const identity = parseSpiffeUri(uri);
  if (identity === undefined) throw refused(`${JSON.stringify(uri.slice(0, 200))} is not the identity of a workload`);
  return identity;
}

function checkLeaf(leaf: Certificate, now: number): void {
  checkNow(leaf, 'it', now);
  checkKey(leaf, 'its key', MAX_LEAF_RSA_BITS);
  if (leaf.ca || leaf.keyUsage?.keyCertSign === true) throw refused('it is a CA certificate, not that of a workload');
  if (!leaf.clientAuth) throw refused('its extended key usage does not include client authentication');
  if (leaf.keyUsage?.digitalSignature === false) throw refused('its key usage does not include digital signatures');
  if (leaf.restricted) throw refused('it has a critical extension that is not supported');
}

function maySign(issuer: Certificate, below: number): boolean {
  return issuer.ca && issuer.keyUsage?.keyCertSign !== false && issuer.pathLength >= below;
}

function issued(issuer: Certificate, subject: Certificate): boolean {
  return subject.x509.checkIssued(issuer.x509) && subject.x509.verify(issuer.x509.publicKey);
}

/** The certificate that signed `subject`; a valid one when an authority has several for its key. */
function findIssuer(
  all: readonly Certificate[],
  subject: Certificate,
  below: number,
  now: number,
): Certificate | undefined {
  const signers = all.filter((one) => maySign(one, below) && issued(one, subject));
  return signers.find(({ notBefore, notAfter }) => notBefore <= now && now < notAfter) ?? signers[0];
}

/** SHA-1 and older algorithms: signatures by them can be forged. */
const WEAK = /md[245]|sha1(?!\d)/i;

/**
 * Verifies a chain and returns the identity of its first certificate, if the chain leads to a root of the trust domain
 * in the identity.
 *
 * @param readAuthority reads the certificates after the first @throws CtlError unauthenticated; in the message, "it" is
 * the certificate
 */
export function verifyChain(
  der: readonly Uint8Array[],
  rootsOf: (trustDomain: string) => readonly Certificate[],
  now: number,
  readAuthority: CertificateReader,
): VerifiedChain {
  if (der.length > MAX_CERTIFICATES) throw refused(`more than ${MAX_CERTIFICATES} certificates`);
  const [leaf, ...others] = der.map((bytes, index) => {
    try {
      return index === 0 ? readCertificate(bytes) : readAuthority(bytes);
    } catch {
      throw refused('it cannot be read');
    }
  });
  if (leaf === undefined) throw refused('there is none');
  checkLeaf(leaf, now);
  const identity = readIdentity(leaf);
  const roots = rootsOf(identity.trustDomain);
  if (roots.length === 0) throw refused(`trust domain ${identity.trustDomain} is unknown`);
  for (const other of others) checkKey(other, 'the key of a certificate above it', MAX_CA_RSA_BITS);
  return { identity, expiresAt: follow(leaf, others, roots, now) };
}

/**
 * Follows the chain from the leaf up to a root; returns the time at which the first of its certificates expires, epoch
 * ms.
 */
function follow(leaf: Certificate, others: readonly Certificate[], roots: readonly Certificate[], now: number): number {
  const unused = new Set(others);
  let current = leaf;
  let ends = leaf.notAfter;
  for (let below = 0; below <= MAX_INTERMEDIATES; below++) {
    if (WEAK.test(current.x509.signatureAlgorithm ?? '')) throw refused('it is signed with an insecure algorithm');
    const root = findIssuer(roots, current, below, now);
    if (root !== undefined) {
      checkNow(root, 'its root certificate', now);
      return Math.min(ends, root.notAfter);
    }
    const next = findIssuer(
      [...unused].filter(({ restricted }) => !restricted),
      current,
      below,
      now,
    );
    if (next === undefined) throw refused('it is not signed by a trusted root certificate of its trust domain');
    checkNow(next, 'an intermediate certificate', now);
    unused.delete(next);
    ends = Math.min(ends, next.notAfter);
    current = next;
  }
  throw refused(`more than ${MAX_INTERMEDIATES} intermediate certificates`);
}
