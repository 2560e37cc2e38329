/** The review of callers' tokens by the API server of the cluster that is read. */
import type { CtlError } from '../core/errors.ts';
import { wallClock } from '../core/wall-clock.ts';
import { getScope } from '../logging/index.ts';
import { createTokenReviewer, requestReview, type TokenReviewer } from '../security/index.ts';
import type { Cluster } from './cluster.ts';

export interface TokenPolicy {
  readonly trustDomain: string;
  /** One of them must be a token's. */
  readonly audiences: readonly string[];
  /** JWT_POLICY first-party-jwt. */
  readonly firstParty: boolean;
}

function logProblem(problem: CtlError | undefined): void {
  const log = getScope('authn');
  if (problem === undefined) log.info('tokens of service accounts are reviewed by the API server again');
  else if (problem.code === 'permission_denied') {
    log.error(
      `${problem.oneLine()}; tokens of service accounts are refused until this program may create tokenreviews ` +
        '(deploy/rbac.yaml)',
    );
  } else {
    log.error(`the API server reviews no tokens: ${problem.oneLine()}; callers with tokens are refused and retry`);
  }
}

export function openTokenReviewer({ client, ownToken }: Cluster, policy: TokenPolicy): TokenReviewer {
  return createTokenReviewer({
    ...policy,
    ask: (token, audiences, signal) => requestReview(client, token, audiences, signal),
    ownToken,
    clock: wallClock,
    onProblem: logProblem,
  });
}
