/**
 * The exchange of a token at a token endpoint (RFC 8693), and of the exchanged one for the access token of a service
 * account where ACCESS_TOKEN_ENDPOINT is set. Failures of the endpoint are retried within the deadline of the caller;
 * its refusals are not.
 */
import { backoff } from '../../core/backoff.ts';
import { sleep } from '../../core/clock.ts';
import { CtlError, errnoOf, oneLineOf } from '../../core/errors.ts';
import type { WallClock } from '../../core/wall-clock.ts';
import { callService } from './call-service.ts';
import type { RequestCounters } from './counters.ts';
import { type ExchangeRequest, type IssuedToken, TOKEN_EXCHANGE_GRANT } from './oauth.ts';
import type { ExchangePlan } from './plan.ts';
import { exchangedToken, serviceAccountToken } from './token-answers.ts';

const ATTEMPTS = 5;
const ATTEMPT_TIMEOUT_MS = 5_000;
const BACKOFF_MS = 100;
const MAX_BACKOFF_MS = 2_000;
/** Requested lifetime of access tokens. */
const ACCESS_TOKEN_LIFETIME = '3600s';

export interface TokenExchangeOptions {
  readonly plan: ExchangePlan;
  readonly counters: RequestCounters;
  readonly readFile: (file: string) => Promise<string>;
  readonly clock: WallClock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
}

/** `exchanged`: the exchanged token. `access`: the access token of the service account, if there is one. */
export type TokenStep = 'exchanged' | 'access';

export type TokenExchange = (request: ExchangeRequest, step: TokenStep, signal: AbortSignal) => Promise<IssuedToken>;

/** Makes the exchange. It rejects with OAuthError for a refusal, with CtlError for everything else. */
export function tokenExchange(options: TokenExchangeOptions): TokenExchange {
  const { plan, clock } = options;
  return async (request, step, signal) => {
    const scope = request.scope || plan.scope;
    const exchanged = await attempts(options, signal, async () => {
      const { headers, body } = await exchangeCall(request, scope, options);
      const call = {
        to: plan.endpoint,
        method: 'POST',
        headers,
        body,
        timeoutMs: ATTEMPT_TIMEOUT_MS,
        signal,
      } as const;
      return exchangedToken(await callService(call), plan.endpoint, clock.now());
    });
    const url = plan.accessTokenEndpoint;
    if (url === undefined || step === 'exchanged') return exchanged;
    const headers = {
      'content-type': 'application/json',
      accept: 'application/json',
      authorization: `Bearer ${exchanged.token}`,
    };
    const body = JSON.stringify({ scope: scope.split(' '), lifetime: ACCESS_TOKEN_LIFETIME });
    return attempts(options, signal, async () => {
      const call = { to: url, method: 'POST', headers, body, timeoutMs: ATTEMPT_TIMEOUT_MS, signal } as const;
      return serviceAccountToken(await callService(call), url, clock.now());
    });
  };
}

/** Form and headers of the exchange. The client is read each time, because its secret may be replaced. */
async function exchangeCall(request: ExchangeRequest, scope: string, { plan, readFile }: TokenExchangeOptions) {
  const client = await readClient(plan.clientFile, readFile);
  const parameters = {
    grant_type: TOKEN_EXCHANGE_GRANT,
    subject_token: request.subjectToken,
    subject_token_type: request.subjectTokenType,
    actor_token: request.actorToken,
    actor_token_type: request.actorTokenType,
    audience: request.audience || plan.audience,
    resource: request.resource,
    scope,
    requested_token_type: request.requestedTokenType,
    client_id: client?.secret === undefined ? (client?.id ?? '') : '',
  };
  const body = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== '')).toString();
  const headers: Record<string, string> = {
    'content-type': 'application/x-www-form-urlencoded',
    accept: 'application/json',
  };
  if (client?.secret !== undefined) headers.authorization = basic(client.id, client.secret);
  return { headers, body };
}

interface Client {
  readonly id: string;
  readonly secret: string | undefined;
}

async function readClient(
  file: string | undefined,
  readFile: TokenExchangeOptions['readFile'],
): Promise<Client | undefined> {
  if (file === undefined) return undefined;
  const unusable = (what: string, cause?: unknown): CtlError =>
    new CtlError('failed_precondition', what, { file: `TOKEN_EXCHANGE_CLIENT_FILE: ${file}` }, cause);
  const text = await readFile(file).catch((error: unknown) => {
    throw unusable(`cannot be read (${errnoOf(error) ?? oneLineOf(error)})`, error);
  });
  const [, id, secret] = /^([\x21-\x39\x3b-\x7e]+)(?::([\x20-\x7e]+))?$/.exec(text.trim()) ?? [];
  if (id === undefined) throw unusable('expected one line: the client ID, or id:secret');
  return { id, secret };
}

/** HTTP Basic authentication of a client (RFC 6749 section 2.3.1): both parts are encoded as in a form. */
function basic(id: string, secret: string): string {
  const encoded = [id, secret].map((part) => new URLSearchParams({ p: part }).toString().slice('p='.length)).join(':');
  return `Basic ${Buffer.from(encoded).toString('base64')}`;
}

async function attempts<T>(options: TokenExchangeOptions, signal: AbortSignal, run: () => Promise<T>): Promise<T> {
  const { counters, clock, random } = options;
  for (let attempt = 1; ; attempt++) {
    try {
      return await counters.count(attempt > 1, run);
    } catch (error) {
      const mayPass = error instanceof CtlError && (error.code === 'unavailable' || error.code === 'deadline_exceeded');
      if (!mayPass || attempt === ATTEMPTS || signal.aborted) throw error;
      await sleep(clock, backoff(attempt, BACKOFF_MS, MAX_BACKOFF_MS, random), signal);
      if (signal.aborted) throw error;
    }
  }
}
