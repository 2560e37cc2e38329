/**
 * Creates the workload's key and the request for its certificate (PKCS #10, RFC 2986), with the SPIFFE ID as the only
 * name.
 */
import { generateKeyPair, type KeyObject, sign } from 'node:crypto';
import { promisify } from 'node:util';
import {
  bits,
  context,
  contextBytes,
  encodeDer,
  encoded,
  nullValue,
  octets,
  oid,
  sequence,
  setOf,
  smallInteger,
} from '../../asn1/index.ts';
import { CtlError } from '../../core/errors.ts';
import { encodePem } from '../../core/tls/pem.ts';

const generate = promisify(generateKeyPair);

/** Names of the signature algorithms (RFC 8017, RFC 5758). */
const SHA256_WITH_RSA = sequence(oid('1.2.840.113549.1.1.11'), nullValue());
const ECDSA_WITH_SHA256 = sequence(oid('1.2.840.10045.4.3.2'));
/** PKCS #9 extensionRequest, RFC 5280 subjectAltName. */
const EXTENSION_REQUEST = '1.2.840.113549.1.9.14';
const SUBJECT_ALT_NAME = '2.5.29.17';
/** Context tag of GeneralName: a URI. */
const URI_NAME = 6;

/** The usual size; larger keys slow down handshakes. */
const RSA_BITS = 2048;

export type KeyKind = 'RSA' | 'ECDSA';

/** The kind of key for ECC_SIGNATURE_ALGORITHM. Throws CtlError invalid_argument for an unknown value. */
export function keyKind(eccSignatureAlgorithm: string): KeyKind {
  if (eccSignatureAlgorithm === '') return 'RSA';
  if (eccSignatureAlgorithm === 'ECDSA') return 'ECDSA';
  const given = JSON.stringify(eccSignatureAlgorithm);
  const message = `${given} is not supported: set ECDSA, or leave the variable empty for RSA keys`;
  throw new CtlError('invalid_argument', message, { field: 'ECC_SIGNATURE_ALGORITHM' });
}

export interface KeyAndRequest {
  /** PEM. */
  readonly key: string;
  /** PEM. */
  readonly csr: string;
}

/**
 * Creates a key (outside of the main thread) and a request for a certificate of `uri`.
 *
 * @param pkcs8 whether the key is written as PKCS #8 (PKCS8_KEY)
 */
export async function newKeyAndRequest(kind: KeyKind, pkcs8: boolean, uri: string): Promise<KeyAndRequest> {
  const { privateKey, publicKey } =
    kind === 'RSA' ? await generate('rsa', { modulusLength: RSA_BITS }) : await generate('ec', { namedCurve: 'P-256' });
  return { key: keyPem(privateKey, kind, pkcs8), csr: request(privateKey, publicKey, kind, uri) };
}

function keyPem(key: KeyObject, kind: KeyKind, pkcs8: boolean): string {
  const type = pkcs8 ? 'pkcs8' : kind === 'RSA' ? 'pkcs1' : 'sec1';
  return key.export({ type, format: 'pem' }).toString();
}

function request(privateKey: KeyObject, publicKey: KeyObject, kind: KeyKind, uri: string): string {
  const names = sequence(contextBytes(URI_NAME, Buffer.from(uri)));
  const extension = sequence(oid(SUBJECT_ALT_NAME), octets(encodeDer(names)));
  const attribute = sequence(oid(EXTENSION_REQUEST), setOf(sequence(extension)));
  const info = encodeDer(
    sequence(
      smallInteger(0), // version 1
      sequence(), // no subject: the name is in the extension
      encoded(publicKey.export({ type: 'spki', format: 'der' })),
      context(0, attribute),
    ),
  );
  const algorithm = kind === 'RSA' ? SHA256_WITH_RSA : ECDSA_WITH_SHA256;
  const signature = bits(sign('sha256', info, privateKey));
  return encodePem('CERTIFICATE REQUEST', encodeDer(sequence(encoded(info), algorithm, signature)));
}
