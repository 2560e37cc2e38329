/** The same question to all replicas of a discovery service. */
import type { Environment } from '../settings/index.ts';
import { type DebugClient, debugClient } from './debug-client.ts';

export interface Asked<T> {
  readonly found: readonly T[];
  /** One error for each service that could not be asked, where there are several. */
  readonly failed: readonly unknown[];
}

/** Rejects if there is only one, and it could not be asked. */
export async function askReplicas<T>(
  addresses: readonly string[],
  env: Environment,
  ask: (client: DebugClient) => Promise<T>,
): Promise<Asked<T>> {
  const clients = await Promise.all([...new Set(addresses)].map((address) => debugClient(address, env)));
  const asked = await Promise.allSettled(clients.map(ask));
  const failed = asked.flatMap((one) => (one.status === 'rejected' ? [one.reason as unknown] : []));
  if (failed.length > 0 && clients.length === 1) throw failed[0];
  const found = asked.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  return { found, failed };
}
