/**
 * Entry point of the workload's credentials besides its certificate: identity tokens of a cloud's metadata server and
 * token exchange. Loaded only by agents whose settings ask for one of them.
 *
 *   token file or metadata server ─▶ exchange (PLUGINS) ─▶ authority
 *   clients of the STS server ─────▶ exchange (--tokenManagerPlugin)
 */
import { readFile } from 'node:fs/promises';
import { CtlError } from '../../core/errors.ts';
import { shownUrl } from '../../core/network/http-call.ts';
import { type WallClock, wallClock } from '../../core/wall-clock.ts';
import { getScope } from '../../logging/index.ts';
import type { IdentityMetric, TokenSource } from '../types.ts';
import { requestCounters } from './counters.ts';
import { metadataTokenSource } from './metadata-server.ts';
import { JWT_TYPE, OAuthError, toExchangeRequest } from './oauth.ts';
import type { CredentialsPlan } from './plan.ts';
import { tokenExchange } from './token-exchange.ts';
import { createTokenManager, type TokenManager } from './token-manager.ts';

export {
  ACCESS_TOKEN_TYPE,
  type ExchangeRequest,
  ID_TOKEN_TYPE,
  type IssuedToken,
  JWT_TYPE,
  OAuthError,
  type OAuthErrorCode,
  TOKEN_EXCHANGE_GRANT,
} from './oauth.ts';
export type { TokenManager, TokenStatus } from './token-manager.ts';

export interface Credentials {
  /** Returns the source of the token that is sent to the authority. `ofFile` reads the token file. */
  readonly token: (ofFile: TokenSource) => TokenSource;
  /** Undefined when no tokens are exchanged. */
  readonly manager: TokenManager | undefined;
  metrics(): readonly IdentityMetric[];
  /** Aborts requests in progress. */
  close(): void;
}

export function createCredentials(plan: CredentialsPlan, clock: WallClock = wallClock): Credentials {
  const closing = new AbortController();
  const { signal } = closing;
  const now = (): number => clock.now();
  const exchanges = requestCounters('token_exchange', now);
  const lookups = requestCounters('metadata', now);
  const { metadataServer: server, exchange: exchangePlan, authorityAudience } = plan;
  const ofMachine =
    server && metadataTokenSource({ server, counters: lookups, now, log: getScope('cloudcred'), signal });
  const manager =
    exchangePlan &&
    createTokenManager({
      exchange: tokenExchange({
        plan: exchangePlan,
        counters: exchanges,
        readFile: (file) => readFile(file, 'utf8'),
        clock,
        random: Math.random,
      }),
      clock,
      log: getScope('token'),
      signal,
    });
  return {
    manager,
    token(ofFile) {
      const own = ofMachine ?? ofFile;
      if (manager === undefined || exchangePlan === undefined || authorityAudience === undefined) return own;
      return exchangedSource(own, manager, authorityAudience, exchangePlan.endpoint);
    },
    metrics: () => [
      ...(manager === undefined ? [] : exchanges.metrics()),
      ...(ofMachine === undefined ? [] : lookups.metrics()),
    ],
    close: () => closing.abort(),
  };
}

/** The token that the workload's own one is exchanged for (PLUGINS). */
function exchangedSource(own: TokenSource, manager: TokenManager, audience: string, endpoint: URL): TokenSource {
  return {
    advice: own.advice,
    async token() {
      const subject = await own.token();
      try {
        const { token } = await manager.token({ ...toExchangeRequest(subject, JWT_TYPE), audience }, 'exchanged');
        return token;
      } catch (error) {
        if (!(error instanceof OAuthError)) throw error;
        const message = `${shownUrl(endpoint)} refuses to exchange the workload's token: ${error.code}`;
        throw new CtlError('unauthenticated', message, {}, error);
      }
    },
  };
}
