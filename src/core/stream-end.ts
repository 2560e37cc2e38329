/** Reasons for the planned end of a proxy's stream, in words that both programs know. */

/** A stream ends when the credential expires with which it was opened; the proxy reconnects with its next one. */
export const CREDENTIAL_ENDED = 'the credential of this stream has expired: reconnect';
