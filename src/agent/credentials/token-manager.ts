/**
 * Tokens that were exchanged, kept until they expire. A token is renewed before that, in the background; one exchange
 * at a time runs for equal requests. The key of a token includes the subject token: a caller gets the tokens of the
 * subject that it has proven, and no others.
 */
import { createHash } from 'node:crypto';
import { CtlError, oneLineOf } from '../../core/errors.ts';
import { createFailureLog, type FailureLog, type Log } from '../../core/log.ts';
import type { WallClock } from '../../core/wall-clock.ts';
import { renewsAt } from './lifetime.ts';
import { type ExchangeRequest, type IssuedToken, OAuthError } from './oauth.ts';
import type { TokenExchange, TokenStep } from './token-exchange.ts';

/** One workload needs a token for each of a few audiences. The oldest one is dropped first. */
const MAX_TOKENS = 128;
/**
 * Exchanges at a time for clients of --stsPort; further ones are refused. The agent's own are never refused, so that no
 * client keeps it from renewing the certificate.
 */
const MAX_EXCHANGES = 16;
/** Limit for an exchange with its retries: callers wait for it. */
const EXCHANGE_TIMEOUT_MS = 15_000;
/** With less time left than this a caller waits for the new token, ms. */
const MIN_LEFT_MS = 10_000;
/** After a failed renewal the next one waits this long, ms: the kept token is still valid. */
const RENEWAL_PAUSE_MS = 10_000;

/** A kept token as operators see it, without the token. Times are epoch ms. */
export interface TokenStatus {
  readonly kind: 'access token' | 'federated token';
  readonly audience: string;
  readonly scope: string;
  readonly issuedAt: number;
  readonly expiresAt: number;
}

export interface TokenManager {
  /** Rejects with OAuthError for a refusal of the endpoint, with CtlError for everything else. */
  token(request: ExchangeRequest, step: TokenStep): Promise<IssuedToken>;
  /** The valid tokens that are kept. */
  status(): readonly TokenStatus[];
}

export interface TokenManagerOptions {
  readonly exchange: TokenExchange;
  readonly clock: WallClock;
  readonly log: Log;
  /** Aborts exchanges in progress. */
  readonly signal: AbortSignal;
}

interface Entry {
  readonly issued: IssuedToken;
  readonly expiresAt: number;
  readonly kind: TokenStatus['kind'];
  readonly audience: string;
  readonly scope: string;
  /** Epoch ms. */
  renewsAt: number;
}

export function createTokenManager(options: TokenManagerOptions): TokenManager {
  return new Manager(options);
}

class Manager implements TokenManager {
  readonly #options: TokenManagerOptions;
  readonly #state: FailureLog;
  /** Entries in the order of their last use. */
  readonly #entries = new Map<string, Entry>();
  readonly #running = new Map<string, Promise<IssuedToken>>();

  constructor(options: TokenManagerOptions) {
    this.#options = options;
    this.#state = createFailureLog(options.log, 'tokens cannot be exchanged', 'tokens can be exchanged again');
  }

  async token(request: ExchangeRequest, step: TokenStep): Promise<IssuedToken> {
    const key = keyOf(request, step);
    const { clock } = this.#options;
    const now = clock.now();
    const entry = this.#entry(key, now);
    if (entry === undefined) return this.#run(key, request, step);
    if (now < entry.renewsAt) return entry.issued;
    const renewal = this.#run(key, request, step).catch((error: unknown) => {
      entry.renewsAt = now + RENEWAL_PAUSE_MS;
      // `#exchange` has logged the failure.
      if (entry.expiresAt > clock.now()) return entry.issued;
      throw error;
    });
    if (entry.expiresAt - now < MIN_LEFT_MS) return renewal;
    renewal.catch(() => undefined);
    return entry.issued;
  }

  status(): readonly TokenStatus[] {
    const now = this.#options.clock.now();
    return [...this.#entries.values()]
      .filter(({ expiresAt }) => expiresAt > now)
      .map(({ issued, kind, audience, scope, expiresAt }) => ({
        kind,
        audience,
        scope,
        issuedAt: issued.issuedAt,
        expiresAt,
      }));
  }

  #entry(key: string, now: number): Entry | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    this.#entries.delete(key);
    if (entry.expiresAt <= now) return undefined;
    this.#entries.set(key, entry);
    return entry;
  }

  /** The exchange in progress for the key, or a new one. */
  #run(key: string, request: ExchangeRequest, step: TokenStep): Promise<IssuedToken> {
    const running = this.#running.get(key);
    if (running !== undefined) return running;
    if (step === 'access' && this.#running.size >= MAX_EXCHANGES) {
      const message = `${MAX_EXCHANGES} token exchanges are in progress`;
      return Promise.reject(new CtlError('resource_exhausted', message));
    }
    const started = this.#exchange(key, request, step).finally(() => this.#running.delete(key));
    this.#running.set(key, started);
    return started;
  }

  async #exchange(key: string, request: ExchangeRequest, step: TokenStep): Promise<IssuedToken> {
    const { exchange, signal, log } = this.#options;
    const deadline = AbortSignal.any([signal, AbortSignal.timeout(EXCHANGE_TIMEOUT_MS)]);
    try {
      const issued = await exchange(request, step, deadline);
      this.#state.succeeded();
      this.#keep(key, issued, request, step);
      return issued;
    } catch (error) {
      // A refusal concerns its caller. Its description may repeat the token.
      if (error instanceof OAuthError) log.debug('the token endpoint refuses an exchange', { error: error.code });
      else if (!signal.aborted) this.#state.failed(oneLineOf(error));
      throw error;
    }
  }

  #keep(key: string, issued: IssuedToken, { audience, scope }: ExchangeRequest, step: TokenStep): void {
    const { expiresAt, issuedAt } = issued;
    if (expiresAt === undefined) return;
    const kind = step === 'access' ? 'access token' : 'federated token';
    this.#entries.delete(key);
    this.#entries.set(key, { issued, expiresAt, kind, audience, scope, renewsAt: renewsAt(issuedAt, expiresAt) });
    const [oldest] = this.#entries.keys();
    if (oldest !== undefined && this.#entries.size > MAX_TOKENS) this.#entries.delete(oldest);
  }
}

function keyOf(request: ExchangeRequest, step: TokenStep): string {
  const { subjectToken, subjectTokenType, actorToken, actorTokenType, audience, resource, scope } = request;
  const subject = [subjectToken, subjectTokenType, actorToken, actorTokenType];
  const parts = [step, ...subject, audience, resource, scope, request.requestedTokenType];
  return createHash('sha256').update(JSON.stringify(parts)).digest('base64');
}
