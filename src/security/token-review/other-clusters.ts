/**
 * Reviews of tokens by the API servers of several clusters (CENTRAL_MESHD): first by that of the own cluster, and where
 * that refuses a token, by those of the others that may have issued it. Clusters often have the same issuer, so that a
 * token does not say which one it is of.
 */

import { oneLineOf } from '../../core/errors.ts';
import { createFailureLog, type FailureLog, type Log } from '../../core/log.ts';
import type { KubernetesClient } from '../../kubernetes/index.ts';
import { issuerOf } from './cluster-issuers.ts';
import { type Review, requestReview } from './review-request.ts';

/** A cluster whose tokens are accepted. */
export interface OtherCluster {
  readonly cluster: string;
  readonly client: Pick<KubernetesClient, 'create'>;
  /** The token of this program there, whose issuer is that of the cluster; undefined when it has a certificate. */
  readonly ownToken: () => Promise<string | undefined>;
}

/** Less than the time for a review with its wait: a cluster that does not answer must not hold the others up, ms. */
const TIME_LIMIT_MS = 3000;

export type AskReview = (
  token: string,
  audiences: readonly string[] | undefined,
  signal: AbortSignal,
) => Promise<Review>;

export class OtherClusters {
  readonly #clusters: () => readonly OtherCluster[];
  readonly #log: Log;
  readonly #failures = new WeakMap<OtherCluster['client'], FailureLog>();

  /** @param clusters the ones at the time of a review; at most a hundred */
  constructor(clusters: () => readonly OtherCluster[], log: Log) {
    this.#clusters = clusters;
    this.#log = log;
  }

  /** Whether some of them has this issuer, or may have it. */
  async mayIssue(issuer: string): Promise<boolean> {
    return (await this.#issuedBy(issuer)).length > 0;
  }

  /** Asks `own` first, then all others at once. */
  async ask(own: AskReview, ...[token, audiences, signal]: Parameters<AskReview>): Promise<Review> {
    const first = await own(token, audiences, signal);
    if ('username' in first) return first;
    const others = await this.#issuedBy(issuerOf(token) ?? '');
    const limited = AbortSignal.any([signal, AbortSignal.timeout(TIME_LIMIT_MS)]);
    const answers = await Promise.all(others.map((other) => this.#askOne(other, token, audiences, limited)));
    const accepted = answers.filter((answer) => answer !== undefined).find((answer) => 'username' in answer);
    if (accepted !== undefined) return accepted;
    return answers.includes(undefined) ? { undecided: 'an API server of another cluster cannot review it now' } : first;
  }

  /** Undefined when the API server does not answer. */
  async #askOne(
    { client, cluster }: OtherCluster,
    ...[token, audiences, signal]: Parameters<AskReview>
  ): Promise<Review | undefined> {
    const failures = this.#failuresOf(client, cluster);
    try {
      const review = await requestReview(client, token, audiences, signal);
      failures.succeeded();
      if (!('username' in review) || review.pod === undefined) return review;
      return { ...review, pod: { ...review.pod, cluster } };
    } catch (error) {
      failures.failed(`${oneLineOf(error)}; callers with its tokens are refused and retry`);
      return undefined;
    }
  }

  #failuresOf(client: OtherCluster['client'], cluster: string): FailureLog {
    const known = this.#failures.get(client);
    if (known !== undefined) return known;
    const [failing, recovered] = ['reviews no tokens', 'reviews tokens again'];
    const created = createFailureLog(this.#log, `cluster ${cluster} ${failing}`, `cluster ${cluster} ${recovered}`);
    this.#failures.set(client, created);
    return created;
  }

  async #issuedBy(issuer: string): Promise<readonly OtherCluster[]> {
    const known = await Promise.all(
      this.#clusters().map(async (other) => ({ other, of: issuerOf(await other.ownToken().catch(() => undefined)) })),
    );
    return known.filter(({ of }) => of === undefined || of === issuer).map(({ other }) => other);
  }
}
