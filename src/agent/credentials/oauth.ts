/** Terms of OAuth 2.0 (RFC 6749) and of its token exchange (RFC 8693). */

export const TOKEN_EXCHANGE_GRANT = 'urn:ietf:params:oauth:grant-type:token-exchange';

const TOKEN_TYPE = 'urn:ietf:params:oauth:token-type:';
export const JWT_TYPE = `${TOKEN_TYPE}jwt`;
export const ID_TOKEN_TYPE = `${TOKEN_TYPE}id_token`;
export const ACCESS_TOKEN_TYPE = `${TOKEN_TYPE}access_token`;

/**
 * Codes of errors (RFC 6749 section 5.2, RFC 8693 section 2.2.2), and `temporarily_unavailable` of section 4.1.2.1 for
 * an exchange that may succeed later.
 */
export const OAUTH_ERRORS = [
  'invalid_request',
  'invalid_client',
  'invalid_grant',
  'unauthorized_client',
  'unsupported_grant_type',
  'invalid_scope',
  'invalid_target',
  'temporarily_unavailable',
] as const;

export type OAuthErrorCode = (typeof OAUTH_ERRORS)[number];

/** An error that the client of a token endpoint receives. */
export class OAuthError extends Error {
  readonly code: OAuthErrorCode;

  /** @param message the `error_description`; it may repeat what the client has sent, so it is not for logs */
  constructor(code: OAuthErrorCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'OAuthError';
    this.code = code;
  }
}

/** The parameters of a token exchange (RFC 8693 section 2.1); empty: not given. */
export interface ExchangeRequest {
  readonly subjectToken: string;
  readonly subjectTokenType: string;
  readonly actorToken: string;
  readonly actorTokenType: string;
  readonly audience: string;
  readonly resource: string;
  readonly scope: string;
  readonly requestedTokenType: string;
}

/** A request that exchanges a token of this type and has no other parameters. */
export function toExchangeRequest(subjectToken: string, subjectTokenType: string): ExchangeRequest {
  const none = { actorToken: '', actorTokenType: '', audience: '', resource: '', scope: '', requestedTokenType: '' };
  return { subjectToken, subjectTokenType, ...none };
}

/** A token that an exchange has issued (RFC 8693 section 2.2.1). */
export interface IssuedToken {
  readonly token: string;
  readonly issuedTokenType: string;
  /** `Bearer`, or `N_A` for a token that is not an access token. */
  readonly tokenType: string;
  /** Empty: the requested one. */
  readonly scope: string;
  /** Epoch ms. */
  readonly issuedAt: number;
  /** Epoch ms; undefined when the endpoint does not say: the token is not kept then. */
  readonly expiresAt: number | undefined;
}
