/**
 * Which issuers' tokens are worth a review. The API server's own issuer is read from this program's token. Others are
 * learned: while an API server changes its issuer, it accepts tokens of two.
 */
import { decodeJwt } from 'jose';
import { ExpiringCache } from './expiring-cache.ts';

/** `iss` of tokens in Secrets, which have neither audience nor end. It is the same in all clusters. */
export const LEGACY_ISSUER = 'kubernetes/serviceaccount';

/** Minimum interval of reviews of tokens with one issuer that is not known, ms, for all callers together. */
const PROBE_INTERVAL_MS = 1000;

/**
 * Issuers that are remembered as reviewed within the interval. A caller that makes up more of them can cause more
 * reviews, as it could by naming the API server's.
 */
const MAX_PROBED = 100;

/** Maximum number of issuers that are learned: an API server has one, or two while it changes. */
const MAX_LEARNED = 4;

/** The claim `iss` of a token, not verified; undefined where there is none. */
export function issuerOf(token: string | undefined): string | undefined {
  try {
    return token === undefined ? undefined : decodeJwt(token).iss;
  } catch {
    // Other tokens have no issuer.
    return undefined;
  }
}

/**
 * The issuer of the API server that issued a token; undefined where the token does not name it: a token of a Secret, or
 * none.
 */
export async function ownIssuer(ownToken: () => Promise<string | undefined>): Promise<string | undefined> {
  const issuer = issuerOf(await ownToken().catch(() => undefined));
  return issuer === LEGACY_ISSUER ? undefined : issuer;
}

export interface ClusterIssuersOptions {
  /** The token by which this program authenticates itself to the API server; undefined when it uses a certificate. */
  readonly ownToken: () => Promise<string | undefined>;
  /** Monotonic or wall clock, ms. */
  readonly now: () => number;
}

export class ClusterIssuers {
  readonly #options: ClusterIssuersOptions;
  /** The API server's, of the newest token of this program; undefined while it is not known. */
  #own: string | undefined;
  readonly #learned = new Set<string>();
  #reading: Promise<void> | undefined;
  #readAt = Number.NEGATIVE_INFINITY;
  readonly #probed: ExpiringCache<true>;

  constructor(options: ClusterIssuersOptions) {
    this.#options = options;
    this.#probed = new ExpiringCache(MAX_PROBED, options.now);
  }

  /**
   * Whether a token of this issuer is to be reviewed: when the issuer is the API server's, or as a probe. Where the API
   * server's issuer is not known, every token is.
   */
  async mayReview(issuer: string): Promise<boolean> {
    if (this.#isKnown(issuer)) return true;
    await this.#readOwn();
    if (this.#isKnown(issuer) || this.#own === undefined) return true;
    if (this.#probed.get(issuer) === true) return false;
    this.#probed.set(issuer, true, this.#options.now() + PROBE_INTERVAL_MS);
    return true;
  }

  /** Learns the issuer of a token that the API server of the local cluster has accepted. */
  accepted(issuer: string): void {
    if (this.#learned.size < MAX_LEARNED) this.#learned.add(issuer);
  }

  #isKnown(issuer: string): boolean {
    return issuer === this.#own || this.#learned.has(issuer);
  }

  /** Reads the issuer of this program's token, which changes with the API server's; at most once in an interval. */
  #readOwn(): Promise<void> {
    const { ownToken, now } = this.#options;
    if (this.#reading !== undefined) return this.#reading;
    if (now() - this.#readAt < PROBE_INTERVAL_MS) return Promise.resolve();
    this.#readAt = now();
    const read = async (): Promise<void> => {
      const own = await ownIssuer(ownToken);
      this.#reading = undefined;
      this.#own = own ?? this.#own;
    };
    this.#reading = read();
    return this.#reading;
  }
}
