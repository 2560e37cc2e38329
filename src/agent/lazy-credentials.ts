/** Loads credentials and the security token service, when the settings ask for them. */
import type { Part } from '../core/process/closers.ts';
import { getScope } from '../logging/index.ts';
import type { Credentials } from './credentials/index.ts';
import type { CredentialsPlan } from './credentials/plan.ts';

/** The workload has only a token file and certificates. */
const NO_CREDENTIALS: Credentials = { token: (ofFile) => ofFile, manager: undefined, metrics: () => [], close() {} };

/** @param closing aborts requests in progress */
export async function loadCredentials(plan: CredentialsPlan, closing: AbortSignal): Promise<Credentials> {
  if (plan.metadataServer === undefined && plan.exchange === undefined) return NO_CREDENTIALS;
  const { createCredentials } = await import('./credentials/index.ts');
  const credentials = createCredentials(plan);
  closing.addEventListener('abort', () => credentials.close());
  return credentials;
}

/** Starts the security token service (--stsPort). Rejects with a CtlError of one line when the port is not available. */
export async function startSts(port: number, { manager }: Credentials): Promise<Part> {
  if (port === 0 || manager === undefined) return { close() {} };
  const { startStsServer } = await import('./sts/index.ts');
  return startStsServer({ port, manager, log: getScope('stsserver'), now: Date.now });
}
