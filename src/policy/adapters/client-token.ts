/**
 * The access token that an OAuth server gives to a client for itself (RFC 6749 section 4.4). It is requested when it is
 * needed first, and again before it expires. Without a valid one nothing is sent to the adapter, so that what depends
 * on it is denied.
 */
import { backoff } from '../../core/backoff.ts';
import { CtlError, messageOf } from '../../core/errors.ts';
import { shownUrl } from '../../core/network/http-call.ts';
import { isObject } from '../../core/objects.ts';
import type { ClientCredentials } from '../types.ts';
import { readText } from './named-files.ts';
import type { AdapterHost } from './types.ts';

const REQUEST_TIMEOUT_MS = 5_000;
const MAX_RESPONSE_BYTES = 64 * 1024;
/** Servers reject longer headers. */
const MAX_TOKEN_CHARACTERS = 16 * 1024;
/** Lifetime of a token whose server does not state one, and the longest one that is believed, s. */
const [DEFAULT_LIFETIME_S, MAX_LIFETIME_S] = [300, 86_400];
/** A token is requested again after this part of its lifetime. */
const RENEW_AT = 0.75;
/** It is not used in the last moments, in which it may expire on its way: ms, and at most this part of its lifetime. */
const [SPARE_MS, SPARE_PART] = [1_000, 0.1];
/** After failures no request is sent for some time, ms: many wrong secrets may lock the account. */
const [RETRY_MS, MAX_RETRY_MS] = [1_000, 30_000];
/** A token that the adapter refuses is kept for this time, ms: it may refuse all. */
const REFUSED_MS = 10_000;

interface Token {
  readonly text: string;
  /** Monotonic ms. */
  readonly requestedAt: number;
  readonly renewAt: number;
  readonly expiresAt: number;
}

export class ClientToken {
  readonly #client: ClientCredentials;
  readonly #host: AdapterHost;
  readonly #closing = new AbortController();
  #token: Token | undefined;
  #requesting: Promise<Token> | undefined;
  /** The last of `count` failures in a row. */
  #failure: { readonly error: CtlError; readonly count: number; readonly until: number } | undefined;
  /** Whether the server wants the secret in the body of requests, in place of a header. */
  #inBody = false;

  constructor(client: ClientCredentials, host: AdapterHost) {
    this.#client = client;
    this.#host = host;
  }

  /** A token that has not expired. Rejects with CtlError, in one line without secrets. */
  async current(): Promise<string> {
    const now = this.#host.monotonic();
    const token = this.#token;
    if (token !== undefined && now < token.renewAt) return token.text;
    const renewed = this.#renew(now);
    if (token === undefined || now >= token.expiresAt) return (await renewed).text;
    // The one before is valid meanwhile. Its next user tries again.
    renewed.catch(() => {});
    return token.text;
  }

  /** The adapter does not accept the token, which may have been revoked. */
  refused(): void {
    if (this.#token !== undefined && this.#host.monotonic() - this.#token.requestedAt > REFUSED_MS)
      this.#token = undefined;
  }

  close(): void {
    this.#closing.abort();
  }

  /** The request that is in progress: all that need a token wait for the same one. */
  #renew(now: number): Promise<Token> {
    if (this.#failure !== undefined && now < this.#failure.until) return Promise.reject(this.#failure.error);
    this.#requesting ??= this.#request()
      .then((token) => {
        this.#failure = undefined;
        this.#token = token;
        return token;
      })
      .catch((error: unknown) => {
        const known = error instanceof CtlError ? error : new CtlError('unavailable', messageOf(error), {}, error);
        const count = (this.#failure?.count ?? 0) + 1;
        const wait = backoff(count, RETRY_MS, MAX_RETRY_MS, () => this.#host.random());
        this.#failure = { error: known, count, until: this.#host.monotonic() + wait };
        throw known;
      })
      .finally(() => {
        this.#requesting = undefined;
      });
    return this.#requesting;
  }

  async #request(): Promise<Token> {
    // It is read for each request: it may have been replaced.
    const secret = await readText(this.#host, this.#client.clientSecret);
    const answer = await this.#send(secret, this.#inBody);
    // Servers need not have both ways (RFC 6749 section 2.3.1).
    if (answer.status !== 400 && answer.status !== 401) return this.#tokenOf(answer);
    const other = await this.#send(secret, !this.#inBody);
    if (other.status === 200) this.#inBody = !this.#inBody;
    return this.#tokenOf(other.status === 200 ? other : answer);
  }

  async #send(secret: string, inBody: boolean): Promise<Answer> {
    const { clientId, tokenUrl, scopes, endpointParams } = this.#client;
    const form = new URLSearchParams({ grant_type: 'client_credentials' });
    if (scopes.length > 0) form.set('scope', scopes.join(' '));
    for (const [name, value] of Object.entries(endpointParams)) form.set(name, value);
    if (inBody) {
      form.set('client_id', clientId);
      form.set('client_secret', secret);
    }
    const credentials = Buffer.from(`${encoded(clientId)}:${encoded(secret)}`).toString('base64');
    const to = new URL(tokenUrl);
    // The time of the request: the token does not live longer than that.
    const at = this.#host.monotonic();
    const { status, text } = await this.#host.call(
      {
        to,
        method: 'POST',
        headers: {
          'content-type': 'application/x-www-form-urlencoded',
          accept: 'application/json',
          ...(inBody ? {} : { authorization: `Basic ${credentials}` }),
        },
        body: form.toString(),
        timeoutMs: REQUEST_TIMEOUT_MS,
        signal: this.#closing.signal,
      },
      MAX_RESPONSE_BYTES,
    );
    return { status, text, at };
  }

  #tokenOf({ status, text, at }: Answer): Token {
    const server = shownUrl(new URL(this.#client.tokenUrl));
    const body = parsed(text);
    if (status !== 200) {
      const { error } = body ?? {};
      const why = typeof error === 'string' && /^[a-z_]{1,40}$/.test(error) ? `: ${error}` : '';
      throw new CtlError('unavailable', `${server} returned HTTP ${status}${why}`);
    }
    const { access_token: token, expires_in: lifetime } = body ?? {};
    if (typeof token !== 'string' || token.length > MAX_TOKEN_CHARACTERS || !/^[\x21-\x7e]+$/.test(token))
      throw new CtlError('unavailable', `${server} returned no token that can be sent in a header`);
    const ms = Math.min(Number(lifetime ?? DEFAULT_LIFETIME_S), MAX_LIFETIME_S) * 1000;
    const expiresAt = at + ms - Math.min(SPARE_MS, ms * SPARE_PART);
    // Also when the response took longer than the token lives. A lifetime that is no number is none.
    if (!(ms > 0 && this.#host.monotonic() < expiresAt))
      throw new CtlError('unavailable', `${server} returned a token that has expired`);
    return { text: token, requestedAt: at, renewAt: at + ms * RENEW_AT, expiresAt };
  }
}

interface Answer {
  readonly status: number;
  readonly text: string;
  /** When it was requested, monotonic ms. */
  readonly at: number;
}

/** RFC 6749, appendix B. */
function encoded(text: string): string {
  return new URLSearchParams([['', text]]).toString().slice(1);
}

function parsed(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
