/**
 * The piscina entry point of signing. The authority's key is held by this thread alone, beside the main thread's work.
 */
import { randomBytes } from 'node:crypto';
import type { SignAnswer, SignTask } from '../src/security/authority/sign-protocol.ts';
import { createSigner } from '../src/security/authority/signer.ts';

const signer = createSigner(randomBytes);

export function run(task: SignTask): SignAnswer {
  return signer.run(task);
}
