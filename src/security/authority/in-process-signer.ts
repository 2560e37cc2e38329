/**
 * Signs on the main thread, for an authority that signs a few times a day, for the control plane itself: that saves a
 * worker thread and the 0.15 CPU s of its start. The key is loaded for each signature and not kept.
 */
import { randomBytes } from 'node:crypto';
import type { SigningMaterial } from './root-source.ts';
import { createSigner } from './signer.ts';
import { errorOf, issuerOf, type SigningPool, unreadableKey } from './signing-pool.ts';

/** @param load reads the key from its store */
export function createInProcessSigner(load: () => Promise<SigningMaterial>): Pick<SigningPool, 'sign'> {
  return {
    async sign(job) {
      const material = await load().catch((error: unknown) => {
        throw unreadableKey(error);
      });
      const answer = createSigner(randomBytes).run({ adopt: issuerOf(material), jobs: [job] });
      const result = answer.kind === 'done' ? answer.results[0] : undefined;
      if (result?.kind !== 'signed') throw errorOf(result);
      return { ...result, path: material.path };
    },
  };
}
