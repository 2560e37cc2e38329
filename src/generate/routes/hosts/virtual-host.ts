/** The message of a sidecar's virtual host. */

import { withSharedRetries } from '../actions/shared-retries.ts';
import type { Route, VirtualHostMessage } from '../messages.ts';

export function virtualHost(name: string, domains: readonly string[], routes: readonly Route[]): VirtualHostMessage {
  return { name, domains, ...withSharedRetries(routes), includeRequestAttemptCount: true };
}
