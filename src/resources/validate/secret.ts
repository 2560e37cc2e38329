/**
 * Validates Secrets for TLS at gateways: a Secret that Envoy would refuse must not replace a good one. Secrets with
 * other content are not checked. Messages never quote values.
 */
import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { countPemBlocks, pemBlocks } from '../../core/pem.ts';
import { authoritiesOf, keyPairOf, secretBytes, TLS_TYPE } from '../credentials.ts';
import type { SecretContent } from '../schema/core.ts';
import type { ValidationErrors } from './validation-errors.ts';

/** The orchestrator's own limit of a whole Secret. */
const MAX_BYTES = 1024 * 1024;

/** Envoy's requirements for server keys. */
const MIN_RSA_BITS = 2048;
const CURVES: ReadonlySet<string> = new Set(['prime256v1', 'secp384r1', 'secp521r1']);

export function validateSecret(content: SecretContent, errors: ValidationErrors): void {
  const pair = keyPairOf(content);
  if (pair !== undefined) checkKeyPair(content, pair, errors);
  else if (content.type === TLS_TYPE) {
    errors.add(['data'], 'expected a certificate (tls.crt) and its key (tls.key)');
  }
  const trusted = authoritiesOf(content);
  if (trusted === undefined) return;
  const at = placeOf(content, trusted.authorities, errors);
  certificatesIn(readText(content, trusted.authorities, at), at);
  if (trusted.revoked === undefined) return;
  const atRevoked = placeOf(content, trusted.revoked, errors);
  const text = readText(content, trusted.revoked, atRevoked);
  if (text !== undefined && pemBlocks(text, 'X509 CRL').length === 0)
    atRevoked.add([], 'expected a revocation list in PEM form');
}

function checkKeyPair(
  content: SecretContent,
  pair: { certificate: string; key: string },
  errors: ValidationErrors,
): void {
  const atCertificate = placeOf(content, pair.certificate, errors);
  const atKey = placeOf(content, pair.key, errors);
  const [leaf] = certificatesIn(readText(content, pair.certificate, atCertificate), atCertificate);
  const key = privateKeyIn(readText(content, pair.key, atKey), atKey);
  if (key === undefined) return;
  const { asymmetricKeyType: type, asymmetricKeyDetails: details } = key;
  if (type === 'rsa' ? (details?.modulusLength ?? 0) < MIN_RSA_BITS : !CURVES.has(details?.namedCurve ?? '')) {
    atKey.add([], `expected an RSA key of ${MIN_RSA_BITS} bits or more, or one on the curve P-256, P-384 or P-521`);
  } else if (leaf !== undefined && !leaf.checkPrivateKey(key)) {
    atKey.add([], `expected the key of the certificate in ${pair.certificate}`);
  }
}

/** Where an entry is: `stringData` takes precedence, as in the orchestrator. */
function placeOf({ stringData }: SecretContent, name: string, errors: ValidationErrors): ValidationErrors {
  return errors.at(stringData?.[name] === undefined ? 'data' : 'stringData', name);
}

function readText(content: SecretContent, name: string, at: ValidationErrors): string | undefined {
  const bytes = secretBytes(content, name);
  if (bytes === undefined) at.add([], 'expected base64');
  else if (bytes.length > MAX_BYTES) at.add([], `expected at most ${MAX_BYTES} bytes`);
  else return new TextDecoder('latin1').decode(bytes);
  return undefined;
}

function certificatesIn(text: string | undefined, at: ValidationErrors): X509Certificate[] {
  if (text === undefined) return [];
  try {
    const found = pemBlocks(text, 'CERTIFICATE').map((pem) => new X509Certificate(pem));
    if (found.length > 0 && found.length === countPemBlocks(text, 'CERTIFICATE-----')) return found;
  } catch {
    // Reported below, without the library's quotation.
  }
  at.add([], 'expected certificates in PEM form');
  return [];
}

function privateKeyIn(text: string | undefined, at: ValidationErrors): KeyObject | undefined {
  if (text === undefined) return undefined;
  try {
    return createPrivateKey({ key: text, format: 'pem' });
  } catch {
    at.add([], 'expected a private key in PEM form, not encrypted');
    return undefined;
  }
}
