/**
 * Errors of decoding a header block: one ends the connection, the other only the request.
 */

/**
 * The block is malformed: a connection error COMPRESSION_ERROR, because the tables of both ends differ from here on
 * (RFC 7541, 4.3).
 */
export class HpackError extends Error {
  override readonly name = 'HpackError';
}

/** The block is valid and the table is up to date, but the list exceeds the limit: an error of this request only. */
export class HeaderListTooLarge extends Error {
  override readonly name = 'HeaderListTooLarge';
}
