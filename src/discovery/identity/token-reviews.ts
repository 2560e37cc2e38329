/** The review of callers' tokens by the API server of the cluster that is read. */
import { systemClock } from '../../core/clock.ts';
import type { CtlError } from '../../core/errors.ts';
import { wallClock } from '../../core/wall-clock.ts';
import { getScope, type LimitedLog, limitLog } from '../../logging/index.ts';
import { createClusterReviews, createTokenReviewer, OtherClusters, type TokenReviewer } from '../../security/index.ts';
import type { Cluster } from '../clusters/cluster.ts';
import type { Remotes } from '../clusters/remote-clusters.ts';

export interface TokenPolicy {
  readonly trustDomain: string;
  /** One of them must be a token's. */
  readonly audiences: readonly string[];
  /** JWT_POLICY first-party-jwt. */
  readonly firstParty: boolean;
}

/**
 * Logs API servers that review no tokens. An overloaded API server reviews some tokens and refuses others, so the lines
 * of each cluster are rate-limited.
 */
class ReviewLog {
  readonly #error = limitedLines((line) => getScope('authn').error(line));
  readonly #warn = limitedLines((line) => getScope('authn').warn(line));
  readonly #info = limitedLines((line) => getScope('authn').info(line));

  own(problem: CtlError | undefined): void {
    if (problem === undefined) this.#info('', 'tokens of service accounts are reviewed by the API server again');
    else if (problem.code === 'permission_denied') {
      this.#error(
        '',
        `${problem.oneLine()}; tokens of service accounts are refused until this program is allowed to create ` +
          'TokenReviews (deploy/rbac.yaml)',
      );
    } else {
      const line = `the API server cannot review tokens: ${problem.oneLine()}; callers with tokens are refused`;
      this.#error('', `${line} until it can`);
    }
  }

  other(cluster: string, problem: CtlError | undefined): void {
    if (problem === undefined) this.#info(cluster, `cluster ${cluster} reviews tokens again`);
    else {
      const line = `cluster ${cluster} cannot review tokens: ${problem.oneLine()}; callers with its tokens are refused`;
      this.#warn(cluster, `${line} until it can`);
    }
  }
}

function limitedLines(write: (line: string) => void): LimitedLog {
  return limitLog({ write, later: (ms, run) => void systemClock.setTimer(ms, run) });
}

/** @param remotes whose tokens are accepted as well (CENTRAL_MESHD) */
export function openTokenReviewer(
  { client, ownToken }: Cluster,
  policy: TokenPolicy,
  remotes: Pick<Remotes, 'clients'>,
): TokenReviewer {
  const [log, clock] = [new ReviewLog(), wallClock];
  const ask = createClusterReviews({ client, clock, onProblem: (problem) => log.own(problem) });
  const onProblem = log.other.bind(log);
  const others = new OtherClusters({ clusters: () => remotes.clients(), ownToken, clock, onProblem });
  return createTokenReviewer({
    ...policy,
    ask: (...review) => others.ask(ask, ...review),
    mayIssue: (issuer) => others.mayIssue(issuer),
    ownToken,
    clock,
  });
}
