/** Reviews of tokens by one API server: paced for all callers, and with its failures reported. */
import type { Clock } from '../../core/clock.ts';
import { type CtlError, toCtlError } from '../../core/errors.ts';
import type { KubernetesClient } from '../../kubernetes/index.ts';
import { type ReviewLimits, TokenReviewQueue } from './review-queue.ts';
import { type Review, requestReview } from './review-request.ts';

/**
 * Rejects with CtlError when the token is not reviewed in time.
 * @param audiences one of them must be the token's; undefined: the token must be for the API server itself
 * @param peer address of the caller, whose reviews take turns with those of other addresses
 * @param signal the answer is not needed any more
 */
export type AskReview = (
  token: string,
  audiences: readonly string[] | undefined,
  peer: string,
  signal?: AbortSignal,
) => Promise<Review>;

export interface ClusterReviewsOptions extends ReviewLimits {
  readonly client: Pick<KubernetesClient, 'create'>;
  readonly clock: Pick<Clock, 'setTimer'>;
  /** The API server reviews no tokens; called once for each reason in a row. Undefined: it does so again. */
  readonly onProblem: (problem: CtlError | undefined) => void;
}

export function createClusterReviews(options: ClusterReviewsOptions): AskReview {
  const { client, clock, onProblem } = options;
  const queue = new TokenReviewQueue(clock, options);
  let code: CtlError['code'] | undefined;
  const report = (problem: CtlError | undefined): void => {
    if (code === problem?.code) return;
    code = problem?.code;
    onProblem(problem);
  };
  return async (token, audiences, peer, signal) => {
    try {
      const review = await queue.run(peer, (ending) => requestReview(client, token, audiences, ending), signal);
      report(undefined);
      return review;
    } catch (error) {
      if (signal?.aborted !== true) report(toCtlError(error));
      throw error;
    }
  };
}
