/**
 * Readiness of an agent without an Envoy (DISABLE_ENVOY): applications can use what it gives them, which are the xDS
 * proxy and the files of the certificate. Whether they have their configuration is theirs to report.
 */
import type { Readiness } from './readiness.ts';

export interface OwnReadinessDeps {
  /** Why a part of the agent is not ready; undefined when all are. */
  readonly missing: () => string | undefined;
}

export function createOwnReadiness({ missing }: OwnReadinessDeps): Readiness {
  let draining = false;
  let served = false;
  return {
    async check() {
      const why = draining ? 'draining' : missing();
      if (why === undefined) served = true;
      return why;
    },
    hasServed: async () => served || missing() === undefined,
    restarted: () => undefined,
    draining() {
      draining = true;
    },
  };
}
