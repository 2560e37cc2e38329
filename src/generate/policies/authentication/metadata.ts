/** Where the jwt_authn filter leaves what it found out: keys of the dynamic metadata of that name. */

export const JWT_FILTER = 'envoy.filters.http.jwt_authn';

/** The claims of the good token, which authorization reads. */
export const PAYLOAD = 'payload';

/** Why a token is not good: `code` and `message`. */
export const FAILURE = 'failure';
