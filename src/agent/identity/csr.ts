/**
 * The workload's key and the request for its certificate (PKCS #10, RFC 2986) with the SPIFFE ID as the only name. The
 * request is written by hand: it is forty lines, and a library for it would stay in the memory of every workload.
 */
import { generateKeyPair, type KeyObject, sign } from 'node:crypto';
import { promisify } from 'node:util';
import { CtlError } from '../../core/errors.ts';
import { der, oid, sequence } from './der.ts';

const generate = promisify(generateKeyPair);

/** RFC 8017 and RFC 5758: how a signature is named. */
const SHA256_WITH_RSA = sequence(oid('1.2.840.113549.1.1.11'), der(0x05));
const ECDSA_WITH_SHA256 = sequence(oid('1.2.840.10045.4.3.2'));
/** PKCS #9 extensionRequest, RFC 5280 subjectAltName. */
const EXTENSION_REQUEST = '1.2.840.113549.1.9.14';
const SUBJECT_ALT_NAME = '2.5.29.17';
/** GeneralName uniformResourceIdentifier: context tag 6, primitive. */
const URI_NAME = 0x86;

/** 2048 bits are what the field uses; more only cost handshakes time. */
const RSA_BITS = 2048;

export type KeyKind = 'RSA' | 'ECDSA';

/** What ECC_SIGNATURE_ALGORITHM asks for. Throws CtlError invalid_argument for what does not exist. */
export function keyKind(eccSignatureAlgorithm: string): KeyKind {
  if (eccSignatureAlgorithm === '') return 'RSA';
  if (eccSignatureAlgorithm === 'ECDSA') return 'ECDSA';
  const message = `${JSON.stringify(eccSignatureAlgorithm)} is not known: only ECDSA is; without it keys are RSA`;
  throw new CtlError('invalid_argument', message, { field: 'ECC_SIGNATURE_ALGORITHM' });
}

export interface KeyAndRequest {
  /** PEM. */
  readonly key: string;
  /** PEM. */
  readonly csr: string;
}

/**
 * A new key (made off the main thread) and a request for a certificate of `uri`. `pkcs8` says how the key is written
 * (PKCS8_KEY).
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
  const names = sequence(der(URI_NAME, Buffer.from(uri)));
  const extension = sequence(oid(SUBJECT_ALT_NAME), der(0x04, names));
  const attribute = sequence(oid(EXTENSION_REQUEST), der(0x31, sequence(extension)));
  const info = sequence(
    der(0x02, Buffer.from([0])), // version 1
    sequence(), // no subject: the name is in the extension
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa0, attribute),
  );
  const signature = der(0x03, Buffer.from([0]), sign('sha256', info, privateKey));
  const whole = sequence(info, kind === 'RSA' ? SHA256_WITH_RSA : ECDSA_WITH_SHA256, signature);
  const lines = whole.toString('base64').replace(/.{1,64}/g, '$&\n');
  return `-----BEGIN CERTIFICATE REQUEST-----\n${lines}-----END CERTIFICATE REQUEST-----\n`;
}
