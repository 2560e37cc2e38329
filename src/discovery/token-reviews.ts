/** The review of callers' tokens by the API server of the cluster that is read. */
import type { CtlError } from '../core/errors.ts';
import { wallClock } from '../core/wall-clock.ts';
import { getScope } from '../logging/index.ts';
import {
  createTokenReviewer,
  OtherClusters,
  requestReview,
  type TokenReviewer,
  type TokenReviewerOptions,
} from '../security/index.ts';
import type { Cluster } from './cluster.ts';
import type { RemoteClusters } from './remote-clusters.ts';

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

/** @param remotes whose tokens are accepted as well (CENTRAL_MESHD); undefined: none */
export function openTokenReviewer(
  { client, ownToken }: Cluster,
  policy: TokenPolicy,
  remotes: RemoteClusters | undefined,
): TokenReviewer {
  const ask: TokenReviewerOptions['ask'] = (...review) => requestReview(client, ...review);
  const others = remotes && new OtherClusters(() => remotes.clients(), getScope('authn'));
  return createTokenReviewer({
    ...policy,
    ask: others === undefined ? ask : (...review) => others.ask(ask, ...review),
    ...(others && { mayIssue: (issuer) => others.mayIssue(issuer) }),
    ownToken,
    clock: wallClock,
    onProblem: logProblem,
  });
}
