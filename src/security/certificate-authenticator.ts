/** Authenticates callers by the client certificate of their connection. */
import { createHash } from 'node:crypto';
import { CtlError } from '../core/errors.ts';
import { createAuthorityReader } from './authority-reader.ts';
import { type VerifiedChain, verifyChain } from './chain.ts';
import type { TrustBundles } from './trust.ts';
import type { Authenticator, Caller } from './types.ts';

/** Verified chains in the cache, some 200 bytes each: proxies reconnect with the same certificate. */
const MAX_REMEMBERED = 10_000;

/**
 * Refused chains are cached as well; otherwise one connection could have the same invalid chain verified for each of
 * its calls. Only for a short time, because a certificate that is not valid yet will be.
 */
const REFUSED_MS = 5000;
const MAX_REFUSED = 1000;

interface Refused {
  readonly error: unknown;
  /** Epoch ms. */
  readonly until: number;
}

export interface CertificateAuthenticatorOptions {
  readonly trust: TrustBundles;
  /** Epoch ms. */
  readonly now: () => number;
}

function keyOf(certificates: readonly Uint8Array[]): string {
  const hash = createHash('sha256');
  for (const certificate of certificates) hash.update(String(certificate.length)).update(':').update(certificate);
  return hash.digest('base64');
}

/** Adds an entry; the oldest one is evicted when there are too many. */
function keep<T>(into: Map<string, T>, most: number, key: string, value: T): void {
  into.delete(key);
  if (into.size >= most) into.delete(into.keys().next().value ?? '');
  into.set(key, value);
}

export function createCertificateAuthenticator({ trust, now }: CertificateAuthenticatorOptions): Authenticator {
  let remembered = new Map<string, VerifiedChain>();
  let refused = new Map<string, Refused>();
  let generation = trust.generation;
  const readAuthority = createAuthorityReader();

  const verified = (certificates: readonly Uint8Array[]): VerifiedChain => {
    if (generation !== trust.generation) {
      remembered = new Map();
      refused = new Map();
      generation = trust.generation;
    }
    const key = keyOf(certificates);
    const known = remembered.get(key);
    if (known !== undefined && known.expiresAt > now()) return known;
    const bad = refused.get(key);
    if (bad !== undefined && now() < bad.until) throw bad.error;
    try {
      const chain = verifyChain(certificates, (domain) => trust.roots(domain), now(), readAuthority);
      keep(remembered, MAX_REMEMBERED, key, chain);
      return chain;
    } catch (error) {
      keep(refused, MAX_REFUSED, key, { error, until: now() + REFUSED_MS });
      throw error;
    }
  };

  return {
    name: 'client certificate',
    authenticate: async ({ certificates }): Promise<Caller | undefined> => {
      if (certificates.length === 0) return undefined;
      try {
        return { ...verified(certificates), by: 'certificate' };
      } catch (error) {
        if (error instanceof CtlError) throw error;
        // node:crypto throws for key types that it does not support.
        throw new CtlError('unauthenticated', 'it cannot be verified', {}, error);
      }
    },
  };
}
