/** Callers proved by the certificate of their connection. */
import { createHash } from 'node:crypto';
import { CtlError } from '../core/errors.ts';
import { type VerifiedChain, verifyChain } from './chain.ts';
import type { TrustBundles } from './trust.ts';
import type { Authenticator, Caller } from './types.ts';

/** Verified chains that are remembered, each some 200 bytes: proxies connect again with the same certificate. */
const MAX_REMEMBERED = 10_000;

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

export function createCertificateAuthenticator({ trust, now }: CertificateAuthenticatorOptions): Authenticator {
  let remembered = new Map<string, VerifiedChain>();
  let generation = trust.generation;

  const verified = (certificates: readonly Uint8Array[]): VerifiedChain => {
    if (generation !== trust.generation) {
      remembered = new Map();
      generation = trust.generation;
    }
    const key = keyOf(certificates);
    const known = remembered.get(key);
    if (known !== undefined && known.expiresAt > now()) return known;
    const chain = verifyChain(certificates, (domain) => trust.roots(domain), now());
    if (remembered.size >= MAX_REMEMBERED) remembered.delete(remembered.keys().next().value ?? '');
    remembered.set(key, chain);
    return chain;
  };

  return {
    name: 'client certificate',
    authenticate: async ({ certificates }): Promise<Caller | undefined> => {
      if (certificates.length === 0) return undefined;
      try {
        return { ...verified(certificates), by: 'certificate' };
      } catch (error) {
        if (error instanceof CtlError) throw error;
        // node:crypto throws for keys that it does not know.
        throw new CtlError('unauthenticated', 'it cannot be verified', {}, error);
      }
    },
  };
}
