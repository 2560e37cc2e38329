/**
 * Reads the answers of token endpoints. They are not trusted: a token that is not valid in a header, an invalid
 * lifetime or an error with status 200 is a failure of the endpoint. No message repeats text of an answer, which may
 * contain a token; only the description of an OAuth error is kept, for the client that has sent the request.
 */
import { CtlError } from '../../core/errors.ts';
import { type HttpAnswer, shownUrl } from '../../core/network/http-call.ts';
import { isObject } from '../../core/objects.ts';
import { ACCESS_TOKEN_TYPE, type IssuedToken, OAUTH_ERRORS, OAuthError } from './oauth.ts';

/** Servers reject longer headers. */
const MAX_TOKEN_CHARACTERS = 32 * 1024;
/** Maximum time for which a token is kept, regardless of the endpoint's `expires_in`. */
const MAX_LIFETIME_SECONDS = 86_400;
const MAX_DESCRIPTION_CHARACTERS = 500;

type Json = Readonly<Record<string, unknown>>;

/** The token of an answer of RFC 8693 section 2.2. Throws OAuthError for a refusal, CtlError for everything else. */
export function exchangedToken(answer: HttpAnswer, url: URL, now: number): IssuedToken {
  const body = readBody(answer, url);
  const seconds = lifetimeSeconds(body.expires_in, url);
  return {
    token: readToken(body.access_token, url),
    issuedTokenType: readTokenType(body.issued_token_type, ACCESS_TOKEN_TYPE, url),
    tokenType: readTokenType(body.token_type, 'Bearer', url),
    scope: typeof body.scope === 'string' && /^[\x20-\x7e]{0,4096}$/.test(body.scope) ? body.scope : '',
    issuedAt: now,
    expiresAt: seconds === undefined ? undefined : now + seconds * 1000,
  };
}

/**
 * The token of `generateAccessToken`: `{accessToken, expireTime}` with a time of RFC 3339. Throws the same errors as
 * `exchangedToken`.
 */
export function serviceAccountToken(answer: HttpAnswer, url: URL, now: number): IssuedToken {
  const body = readBody(answer, url);
  const expiresAt = typeof body.expireTime === 'string' ? Date.parse(body.expireTime) : Number.NaN;
  if (!(expiresAt > now)) throw lie(url, 'a token without an expireTime in the future');
  return {
    token: readToken(body.accessToken, url),
    issuedTokenType: ACCESS_TOKEN_TYPE,
    tokenType: 'Bearer',
    scope: '',
    issuedAt: now,
    expiresAt: Math.min(expiresAt, now + MAX_LIFETIME_SECONDS * 1000),
  };
}

function readBody({ status, text }: HttpAnswer, url: URL): Json {
  const at = shownUrl(url);
  if (status >= 300 && status < 400)
    throw new CtlError('failed_precondition', `${at} returned HTTP ${status}: redirects are not followed`);
  // Later requests may succeed.
  if (status === 408 || status === 429 || status >= 500 || status < 200)
    throw new CtlError('unavailable', `${at} returned HTTP ${status}`);
  const body = parseJsonObject(text);
  if (body !== undefined && 'error' in body) throw refusal(body, at);
  if (status !== 200) throw new CtlError('failed_precondition', `${at} returned HTTP ${status} without an OAuth error`);
  if (body === undefined) throw lie(url, 'a body that is not a JSON object');
  return body;
}

function parseJsonObject(text: string): Json | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function refusal({ error, error_description: description }: Json, at: string): Error {
  const code = OAUTH_ERRORS.find((known) => known === error);
  if (code === 'temporarily_unavailable') return new CtlError('unavailable', `${at} is temporarily unavailable`);
  // These concern the agent as a client of the endpoint, not its own clients.
  if (code === 'invalid_client' || code === 'unauthorized_client')
    return new CtlError('failed_precondition', `${at} rejects this client: ${code} (TOKEN_EXCHANGE_CLIENT_FILE)`);
  if (code === undefined) return new CtlError('failed_precondition', `${at} returned an unknown error`);
  const text = typeof description === 'string' ? description.replace(/[^\x20-\x7e]|["\\]/g, ' ') : '';
  // RFC 8693 section 2.2.2: a subject token that is not accepted is an invalid request.
  const own = code === 'invalid_grant' ? 'invalid_request' : code;
  return new OAuthError(own, text.slice(0, MAX_DESCRIPTION_CHARACTERS) || `the token endpoint returned ${code}`);
}

function readToken(value: unknown, url: URL): string {
  if (typeof value !== 'string' || value === '') throw lie(url, 'no token');
  if (value.length > MAX_TOKEN_CHARACTERS || !/^[\x21-\x7e]+$/.test(value))
    throw lie(url, 'a token that cannot be sent in a header');
  return value;
}

/** Seconds, at most a day; undefined without the member. Some servers write the number as a string. */
function lifetimeSeconds(value: unknown, url: URL): number | undefined {
  if (value === undefined || value === null) return undefined;
  const seconds = typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : value;
  if (typeof seconds !== 'number' || !(seconds >= 1)) throw lie(url, 'an invalid expires_in');
  return Math.min(Math.floor(seconds), MAX_LIFETIME_SECONDS);
}

function readTokenType(value: unknown, byDefault: string, url: URL): string {
  if (value === undefined || value === null) return byDefault;
  if (typeof value !== 'string' || !/^[\w:./-]{1,200}$/.test(value)) throw lie(url, 'a token of an invalid type');
  return value;
}

function lie(url: URL, what: string): CtlError {
  return new CtlError('unavailable', `${shownUrl(url)} returned ${what}`);
}
