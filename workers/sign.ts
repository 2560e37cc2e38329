/**
 * The piscina entry point of signing: only this thread has the authority's key, and signing does not delay the main
 * thread.
 */
import { randomBytes } from 'node:crypto';
import { nameThread } from '../src/core/process/thread-name.ts';
import type { SignAnswer, SignTask } from '../src/security/authority/sign-protocol.ts';
import { createSigner } from '../src/security/authority/signer.ts';

nameThread('sign');

const signer = createSigner(randomBytes);

export function run(task: SignTask): SignAnswer {
  return signer.run(task);
}
