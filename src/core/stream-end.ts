/** The messages of planned ends of a proxy's stream, which both programs recognize. */

/** A stream ends when the credential with which it was opened expires; the proxy reconnects with a new one. */
export const CREDENTIAL_ENDED = 'the credential of this stream has expired: reconnect';
