/** Results of the jwt_authn filter: keys of the dynamic metadata of that name. */

export const JWT_FILTER = 'envoy.filters.http.jwt_authn';

/** The claims of the valid token, which authorization reads. */
export const PAYLOAD = 'payload';

/** Why a token is invalid: `code` and `message`. */
export const FAILURE = 'failure';
