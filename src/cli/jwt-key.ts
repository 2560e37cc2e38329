/**
 * The signing key of ctl-jwt, read from a PEM file. The type of the key decides which algorithms it can use (RFC 7518
 * section 3). Its public half is printed as a JSON Web Key (RFC 7517 section 4).
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

/** Verifiers refuse shorter keys (RFC 7518 section 3.3). */
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
    throw unusable(file, `the key is encrypted; ${WANTED} without a passphrase`);
  }
  try {
    return createPrivateKey(pem);
  } catch (error) {
    const other = /^-----BEGIN ([A-Z0-9 ]+)-----$/m.exec(text)?.[1];
    const found = other === undefined || other.endsWith('PRIVATE KEY') ? 'is not a valid key' : `is a ${other}`;
    throw unusable(file, `${found}; ${WANTED}`, error);
  }
}

/**
 * The algorithms that the key can sign with, the default first. Throws for a key type that verifiers do not support.
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
      throw unusable(file, `is a key on the curve ${namedCurve}; ${WANTED}`);
    }
    default:
      throw unusable(file, `is a key of type ${key.asymmetricKeyType}; ${WANTED}`);
  }
}

/**
 * An empty `alg` or `kid` is derived from the key. Rejects with CtlError that names the file, or an algorithm that the
 * key cannot use.
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
