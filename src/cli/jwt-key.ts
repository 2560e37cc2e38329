/**
 * The key of ctl-jwt, from its file. Which algorithm fits a key the key says; what a verifier must know of it is its
 * public half alone (RFC 7517 section 4, RFC 7518 section 3).
 */

import { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { calculateJwkThumbprint, exportJWK, type JWK } from 'jose';
import { CtlError } from '../core/errors.ts';
import { usageError } from '../settings/index.ts';

export interface SigningKey {
  readonly key: KeyObject;
  readonly alg: string;
  readonly kid: string;
  /** The public half, with `kid`, `alg` and `use`. */
  readonly jwk: JWK;
}

const WANTED = 'expected an RSA, EC (P-256, P-384, P-521) or Ed25519 private key in PEM form';

/** Shorter keys no verifier takes (RFC 7518 section 3.3). */
const MIN_RSA_BITS = 2048;

const RSA_ALGORITHMS = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'];
const CURVES: Readonly<Record<string, string>> = { prime256v1: 'ES256', secp384r1: 'ES384', secp521r1: 'ES512' };

function unusable(file: string, reason: string, cause?: unknown): CtlError {
  return new CtlError('failed_precondition', reason, { file }, cause);
}

async function readPem(file: string): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? String(error);
    throw unusable(
      file,
      `${code === 'ENOENT' ? 'there is no such file' : `cannot be read (${code})`}; ${WANTED}`,
      error,
    );
  }
}

function privateKeyOf(file: string, pem: Buffer): KeyObject {
  const text = pem.toString('latin1');
  if (/^-----BEGIN ENCRYPTED|^Proc-Type: 4,ENCRYPTED/m.test(text)) {
    throw unusable(file, `the key is encrypted; ${WANTED} without passphrase`);
  }
  try {
    return createPrivateKey(pem);
  } catch (error) {
    const other = /^-----BEGIN ([A-Z0-9 ]+)-----$/m.exec(text)?.[1];
    const held = other === undefined || other.endsWith('PRIVATE KEY') ? 'cannot be read as a key' : `holds a ${other}`;
    throw unusable(file, `${held}; ${WANTED}`, error);
  }
}

/**
 * Algorithms that the key can sign with, the one by default first. Throws when it is of a kind that nobody verifies.
 */
function algorithmsOf(file: string, key: KeyObject): readonly string[] {
  const { namedCurve = '', modulusLength = 0 } = key.asymmetricKeyDetails ?? {};
  switch (key.asymmetricKeyType) {
    case 'rsa':
      if (modulusLength >= MIN_RSA_BITS) return RSA_ALGORITHMS;
      throw unusable(file, `the RSA key has ${modulusLength} bits; expected ${MIN_RSA_BITS} or more`);
    case 'ed25519':
      return ['EdDSA'];
    case 'ec': {
      const alg = CURVES[namedCurve];
      if (alg !== undefined) return [alg];
      throw unusable(file, `holds a key on the curve ${namedCurve}; ${WANTED}`);
    }
    default:
      throw unusable(file, `holds a key of the kind ${key.asymmetricKeyType}; ${WANTED}`);
  }
}

/**
 * `alg` and `kid` are by the key when ''. Rejects with CtlError naming the file, or the algorithm that does not fit.
 */
export async function readSigningKey(file: string, wanted: { alg: string; kid: string }): Promise<SigningKey> {
  const key = privateKeyOf(file, await readPem(file));
  const algorithms = algorithmsOf(file, key);
  const alg = wanted.alg === '' ? (algorithms[0] ?? '') : wanted.alg;
  if (!algorithms.includes(alg)) {
    throw usageError(
      `invalid value ${JSON.stringify(alg)} for flag --alg: the key in ${file} signs with ${algorithms.join(', ')}`,
    );
  }
  const publicKey = await exportJWK(createPublicKey(key));
  const kid = wanted.kid === '' ? await calculateJwkThumbprint(publicKey) : wanted.kid;
  return { key, alg, kid, jwk: { ...publicKey, kid, alg, use: 'sig' } };
}
