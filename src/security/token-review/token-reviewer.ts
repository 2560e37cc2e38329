/**
 * Tokens of service accounts, reviewed by the API server of the cluster. It knows what a signature does not say: that
 * the service account or the Pod of a token has been deleted (docs/decisions, "Tokens are reviewed by the API server").
 *
 *   token ─▶ claims (size, end, subject, audience, issuer) ─▶ cache ─▶ queue ─▶ API server ─▶ Caller
 *
 * The load that one caller can cause is bounded: a token that cannot be valid is refused without a request, equal
 * tokens share one request, results are cached for a short time, and callers take turns.
 */
import { hash } from 'node:crypto';
import type { JWTPayload } from 'jose';
import { CtlError, toCtlError } from '../../core/errors.ts';
import type { WallClock } from '../../core/wall-clock.ts';
import { quoted, refused, serviceAccountIdentity } from '../service-account.ts';
import type { Caller } from '../types.ts';
import { ClusterIssuers, LEGACY_ISSUER } from './cluster-issuers.ts';
import type { AskReview } from './cluster-reviews.ts';
import { ExpiringCache } from './expiring-cache.ts';
import type { Review } from './review-request.ts';

/** How long an accepted token needs no other review, ms: a deleted Pod's token is accepted for that time at most. */
const ACCEPTED_MS = 30_000;
const MAX_ACCEPTED = 10_000;

/**
 * The same for refused tokens. Shorter, because the API server may refuse a token whose service account it does not
 * know yet.
 */
const REFUSED_MS = 5000;
const MAX_REFUSED = 2000;

/** For how long a caller is authenticated by a token without an end (JWT_POLICY first-party-jwt), ms. */
const WITHOUT_END_MS = 3_600_000;

export interface TokenReviewerOptions {
  readonly ask: AskReview;
  /** See `ClusterIssuersOptions`. */
  readonly ownToken: () => Promise<string | undefined>;
  /** Whether `ask` asks an API server that other than that of the local cluster has, or may have, this issuer. */
  readonly mayIssue?: (issuer: string) => Promise<boolean>;
  readonly trustDomain: string;
  /** The token must have one of these audiences. */
  readonly audiences: readonly string[];
  /** JWT_POLICY first-party-jwt: tokens for the API server itself are accepted as well. */
  readonly firstParty: boolean;
  readonly clock: Pick<WallClock, 'now'>;
}

export interface TokenReviewer {
  /**
   * The caller of a token whose claims are not verified. Rejects with CtlError unauthenticated, or with unavailable
   * when that cannot be decided now.
   * @param peer address of the caller
   */
  review(token: string, claims: JWTPayload, peer: string): Promise<Caller>;
}

function audiencesOf({ aud }: JWTPayload): readonly string[] {
  return aud === undefined ? [] : [aud].flat();
}

class Reviewer implements TokenReviewer {
  readonly #options: TokenReviewerOptions;
  readonly #issuers: ClusterIssuers;
  readonly #accepted: ExpiringCache<Caller>;
  readonly #refused: ExpiringCache<CtlError>;
  /** By hash of the token. */
  readonly #inProgress = new Map<string, Promise<Caller>>();

  constructor(options: TokenReviewerOptions) {
    const { clock, ownToken } = options;
    this.#options = options;
    this.#issuers = new ClusterIssuers({ ownToken, now: clock.now });
    this.#accepted = new ExpiringCache(MAX_ACCEPTED, clock.now);
    this.#refused = new ExpiringCache(MAX_REFUSED, clock.now);
  }

  async review(token: string, claims: JWTPayload, peer: string): Promise<Caller> {
    const key = hash('sha256', token, 'base64');
    const known = this.#accepted.get(key);
    if (known !== undefined) return known;
    const refusal = this.#refused.get(key);
    if (refusal !== undefined) throw refusal;
    const running = this.#inProgress.get(key);
    if (running !== undefined) return running;
    const result = this.#reviewed(token, claims, peer, key).finally(() => this.#inProgress.delete(key));
    this.#inProgress.set(key, result);
    return result;
  }

  async #reviewed(token: string, claims: JWTPayload, peer: string, key: string): Promise<Caller> {
    const { clock } = this.#options;
    const answer = await this.#answer(token, await this.#check(claims), peer);
    if ('undecided' in answer) throw new CtlError('unavailable', `${answer.undecided}, try again later`);
    try {
      const caller = this.#callerOf(answer, claims);
      // Only a few issuers are learned, and none from other clusters.
      if (!('cluster' in answer)) this.#issuers.accepted(claims.iss ?? '');
      this.#accepted.set(key, caller, Math.min(clock.now() + ACCEPTED_MS, caller.expiresAt));
      return caller;
    } catch (error) {
      this.#refused.set(key, toCtlError(error), clock.now() + REFUSED_MS);
      throw error;
    }
  }

  /**
   * The audiences to ask for; undefined: the API server's own. Throws CtlError unauthenticated for a token that the API
   * server would refuse.
   */
  async #check(claims: JWTPayload): Promise<readonly string[] | undefined> {
    const { audiences, clock, firstParty, trustDomain, mayIssue } = this.#options;
    const { exp, iss = '', sub } = claims;
    if (exp === undefined && !firstParty) throw refused('it lacks "exp"');
    // Also rejects a value that is not a number.
    if (exp !== undefined && !(exp * 1000 > clock.now())) throw refused('it has expired');
    serviceAccountIdentity(sub, trustDomain);
    const isForMesh = audiencesOf(claims).some((audience) => audiences.includes(audience));
    if (!isForMesh && !firstParty) throw refused('it is meant for another audience');
    const isLegacy = firstParty && iss === LEGACY_ISSUER;
    const isReviewed = isLegacy || (await mayIssue?.(iss)) === true || (await this.#issuers.mayReview(iss));
    if (!isReviewed) {
      throw refused(`its issuer ${quoted(iss)} is not trusted`);
    }
    return isForMesh ? audiences : undefined;
  }

  /** Rejects with CtlError unavailable when the API server does not answer. */
  async #answer(token: string, asked: readonly string[] | undefined, peer: string): Promise<Review> {
    try {
      return await this.#options.ask(token, asked, peer);
    } catch (error) {
      // The reason is in the log; the sender of a token must not learn about this cluster.
      throw new CtlError('unavailable', 'the API server cannot review it now, try again later', {}, error);
    }
  }

  #callerOf(answer: Exclude<Review, { readonly undecided: string }>, { exp }: JWTPayload): Caller {
    if ('refusal' in answer) throw refused(answer.refusal);
    const { clock, trustDomain } = this.#options;
    return {
      identity: serviceAccountIdentity(answer.username, trustDomain),
      by: 'token',
      expiresAt: exp === undefined ? clock.now() + WITHOUT_END_MS : exp * 1000,
      ...(answer.pod === undefined ? {} : { pod: answer.pod }),
    };
  }
}

export function createTokenReviewer(options: TokenReviewerOptions): TokenReviewer {
  return new Reviewer(options);
}
