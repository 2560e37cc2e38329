/** The message of a sidecar's virtual host. */
import type { Route, VirtualHostMessage } from './messages.ts';
import { withSharedRetries } from './shared-retries.ts';

export function virtualHost(name: string, domains: readonly string[], routes: readonly Route[]): VirtualHostMessage {
  return { name, domains, ...withSharedRetries(routes), includeRequestAttemptCount: true };
}
