/** The key of a server and the request for its certificate (PKCS #10, RFC 2986). */
import { generateKeyPair, sign } from 'node:crypto';
import { promisify } from 'node:util';
import {
  bits,
  context,
  encodeDer,
  encoded,
  octets,
  oid,
  sequence,
  setOf,
  smallInteger,
  utf8,
} from '../../asn1/index.ts';
import { encodePem } from '../../core/tls/pem.ts';
import { hostName } from '../authority/certificate.ts';

const generate = promisify(generateKeyPair);

/** RFC 5758 section 3.2. */
const ECDSA_WITH_SHA256 = sequence(oid('1.2.840.10045.4.3.2'));
/** PKCS #9 extensionRequest; RFC 5280 subjectAltName and commonName. */
const EXTENSION_REQUEST = '1.2.840.113549.1.9.14';
const SUBJECT_ALT_NAME = '2.5.29.17';
const COMMON_NAME = '2.5.4.3';

/** RFC 5280 appendix A.1, ub-common-name. */
const MAX_COMMON_NAME = 64;

export interface ServerRequest {
  /** PEM, PKCS #8. */
  readonly key: string;
  /** PEM. */
  readonly csr: string;
  /** DER of the SubjectPublicKeyInfo. */
  readonly publicKey: Buffer;
}

/**
 * A new ECDSA key, and a request for a certificate of these names. The first name that is short enough is also the
 * common name, which some signers require.
 */
export async function newServerRequest(dnsNames: readonly string[]): Promise<ServerRequest> {
  const { privateKey, publicKey } = await generate('ec', { namedCurve: 'P-256' });
  const spki = publicKey.export({ type: 'spki', format: 'der' });
  const common = dnsNames.find((name) => name.length <= MAX_COMMON_NAME);
  const subject = common === undefined ? [] : [setOf(sequence(oid(COMMON_NAME), utf8(common)))];
  const names = sequence(oid(SUBJECT_ALT_NAME), octets(encodeDer(sequence(...dnsNames.map(hostName)))));
  const attribute = sequence(oid(EXTENSION_REQUEST), setOf(sequence(names)));
  const info = encodeDer(sequence(smallInteger(0), sequence(...subject), encoded(spki), context(0, attribute)));
  const signature = bits(sign('sha256', info, privateKey));
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    csr: encodePem('CERTIFICATE REQUEST', encodeDer(sequence(encoded(info), ECDSA_WITH_SHA256, signature))),
    publicKey: spki,
  };
}
