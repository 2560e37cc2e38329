/** Loads credentials and the security token service, when the settings ask for them. */
import { getScope } from '../logging/index.ts';
import type { Credentials } from './credentials/index.ts';
import type { CredentialsPlan } from './credentials/plan.ts';

/** Undefined when the workload has a token file and certificates alone. */
export async function loadCredentials(plan: CredentialsPlan): Promise<Credentials | undefined> {
  if (plan.metadataServer === undefined && plan.exchange === undefined) return undefined;
  const { createCredentials } = await import('./credentials/index.ts');
  return createCredentials(plan);
}

/**
 * Starts the security token service (--stsPort). Returns the function that stops it. Rejects with a CtlError of one
 * line when the port is not available.
 */
export async function startSts(port: number, credentials: Credentials | undefined): Promise<() => Promise<void>> {
  const manager = credentials?.manager;
  if (port === 0 || manager === undefined) return () => Promise.resolve();
  const { startStsServer } = await import('./sts/index.ts');
  const server = await startStsServer({ port, manager, log: getScope('stsserver'), now: Date.now });
  return () => server.close();
}
