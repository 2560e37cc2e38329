/** Why streams of proxies end in the ordinary course of things, in words that both programs know. */

/** A stream ends with the credential that it began with; the proxy comes back with its next one. */
export const CREDENTIAL_ENDED = 'the credential of this stream has expired, connect anew';
