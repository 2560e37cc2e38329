/**
 * Signing for an authority that is asked a few times a day, for certificates of the control plane itself: on the main
 * thread, without a worker thread and the 0.15 CPU s that its start takes. The key is read for each signature and not
 * kept.
 */
import { randomBytes } from 'node:crypto';
import type { SigningMaterial } from './root-source.ts';
import { createSigner } from './signer.ts';
import { faultOf, issuerOf, type SigningPool, unreadableKey } from './signing-pool.ts';

/** @param load reads the key from where it is kept */
export function createInProcessSigner(load: () => Promise<SigningMaterial>): Pick<SigningPool, 'sign'> {
  return {
    async sign(job) {
      const material = await load().catch((error: unknown) => {
        throw unreadableKey(error);
      });
      const answer = createSigner(randomBytes).run({ adopt: issuerOf(material), jobs: [job] });
      const result = answer.kind === 'done' ? answer.results[0] : undefined;
      if (result?.kind !== 'signed') throw faultOf(result);
      return { ...result, path: material.path };
    },
  };
}
