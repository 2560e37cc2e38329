/**
 * Reviews of tokens by the API servers of several clusters (CENTRAL_MESHD): by that of the local cluster, and if that
 * refuses a token or does not respond, by those of the other clusters that may have issued it. Clusters often have the
 * same issuer, so a token does not tell which cluster issued it. Each API server has its own queue: one that does not
 * respond does not delay tokens that another one accepts.
 */
import { decodeJwt } from 'jose';
import type { Clock } from '../../core/clock.ts';
import { CtlError } from '../../core/errors.ts';
import type { KubernetesClient } from '../../kubernetes/index.ts';
import { issuerOf, ownIssuer } from './cluster-issuers.ts';
import { type AskReview, createClusterReviews } from './cluster-reviews.ts';
import type { Review } from './review-request.ts';

export interface OtherCluster {
  readonly cluster: string;
  readonly client: Pick<KubernetesClient, 'create'>;
  /** The token of this program there, whose issuer is that of the cluster; undefined when it has a certificate. */
  readonly ownToken: () => Promise<string | undefined>;
}

export interface OtherClustersOptions {
  /** The clusters at the time of a review; at most a hundred. */
  readonly clusters: () => readonly OtherCluster[];
  /** The token of this program in the local cluster. */
  readonly ownToken: () => Promise<string | undefined>;
  readonly clock: Pick<Clock, 'setTimer'>;
  /** The API server of a cluster reviews no tokens; see `ClusterReviewsOptions`. */
  readonly onProblem: (cluster: string, problem: CtlError | undefined) => void;
}

/** Time after which other clusters are asked too, when the API server of the local cluster has not responded, ms. */
export const OWN_TIME_MS = 3000;

/**
 * Time limit of a review by another cluster, including its wait, ms. After OWN_TIME_MS, it is within the time limit of
 * a review.
 */
export const OTHERS_TIME_MS = 5000;

/**
 * Maximum number of reviews that wait for one of the other clusters: a token that no cluster issued waits for each of
 * up to a hundred.
 */
const OTHERS_MAX_WAITING = 2000;

export class OtherClusters {
  readonly #options: OtherClustersOptions;
  readonly #reviews = new WeakMap<OtherCluster['client'], AskReview>();

  constructor(options: OtherClustersOptions) {
    this.#options = options;
  }

  /** Whether one of the clusters has this issuer, or may have it. */
  async mayIssue(issuer: string): Promise<boolean> {
    return (await this.#issuedBy(issuer)).length > 0;
  }

  /** Asks `own` first, then all others that may have issued the token at once; the first that accepts it decides. */
  async ask(own: AskReview, ...[token, audiences, peer]: Parameters<AskReview>): Promise<Review> {
    const first = own(token, audiences, peer);
    // Its failure is handled below, after the others have responded.
    first.catch(() => {});
    const issuer = issuerOf(token) ?? '';
    const others = await (audiences === undefined ? this.#certainIssuer(issuer) : this.#issuedBy(issuer));
    if (others.length === 0 || (await this.#acceptsSoon(first))) return first;
    const ending = new AbortController();
    try {
      const answers = others.map((other) => this.#askOne(other, token, audiences, peer, ending.signal));
      const accepted = await Promise.any([first, ...answers].map(acceptedOf)).catch(() => undefined);
      if (accepted !== undefined) return accepted;
      const refusal = await first;
      const isOpen = (await Promise.allSettled(answers)).some(({ status }) => status === 'rejected');
      return isOpen ? { undecided: 'an API server of another cluster cannot review it now' } : refusal;
    } finally {
      ending.abort();
    }
  }

  /** Whether the local cluster accepts the token, within OWN_TIME_MS. */
  async #acceptsSoon(first: Promise<Review>): Promise<boolean> {
    const waiting = Promise.withResolvers<boolean>();
    const timer = this.#options.clock.setTimer(OWN_TIME_MS, () => waiting.resolve(false));
    first.then(
      (review) => waiting.resolve('username' in review),
      () => waiting.resolve(false),
    );
    return waiting.promise.finally(() => timer.cancel());
  }

  async #askOne(other: OtherCluster, ...[token, ...rest]: Parameters<AskReview>): Promise<Review> {
    const { cluster } = other;
    const review = await this.#reviewsOf(other)(token, ...rest);
    if (!('username' in review)) return review;
    // Otherwise, a cluster could give callers of another cluster an identity that they did not ask for.
    if (review.username !== decodeJwt(token).sub) return { refusal: `cluster ${cluster} names another account` };
    return { ...review, cluster, pod: review.pod && { ...review.pod, cluster } };
  }

  #reviewsOf({ client, cluster }: OtherCluster): AskReview {
    const { clock, onProblem } = this.#options;
    const known = this.#reviews.get(client);
    if (known !== undefined) return known;
    const created = createClusterReviews({
      client,
      clock,
      timeLimitMs: OTHERS_TIME_MS,
      maxWaiting: OTHERS_MAX_WAITING,
      onProblem: (problem) => onProblem(cluster, problem),
    });
    this.#reviews.set(client, created);
    return created;
  }

  async #issuedBy(issuer: string): Promise<readonly OtherCluster[]> {
    const issuers = await this.#issuers();
    return issuers.filter(({ of }) => of === undefined || of === issuer).map(({ other }) => other);
  }

  /**
   * The one cluster that has this issuer. A token for an API server itself (JWT_POLICY first-party-jwt) grants more
   * than an identity of the mesh: it must not be sent to the API servers of other clusters.
   */
  async #certainIssuer(issuer: string): Promise<readonly OtherCluster[]> {
    const own = await ownIssuer(this.#options.ownToken);
    const others = (await this.#issuers()).filter(({ of }) => of === issuer).map(({ other }) => other);
    return own === undefined || own === issuer || others.length > 1 ? [] : others;
  }

  #issuers(): Promise<readonly { readonly other: OtherCluster; readonly of: string | undefined }[]> {
    const clusters = this.#options.clusters();
    return Promise.all(clusters.map(async (other) => ({ other, of: await ownIssuer(other.ownToken) })));
  }
}

/** Rejects unless the API server accepts the token. */
async function acceptedOf(answer: Promise<Review>): Promise<Review> {
  const review = await answer;
  if ('username' in review) return review;
  throw new CtlError('unauthenticated', 'the token is not accepted');
}
