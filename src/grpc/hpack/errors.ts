/**
 * What decoding a header block can end in. Two classes, since one costs the connection and the other only the request.
 */

/**
 * The block is malformed: a connection error COMPRESSION_ERROR, because the tables of both ends differ from here on
 * (RFC 7541, 4.3).
 */
export class HpackError extends Error {
  override readonly name = 'HpackError';
}

/** The block is sound and the table up to date, but the list is larger than is taken: an error of this request only. */
export class HeaderListTooLarge extends Error {
  override readonly name = 'HeaderListTooLarge';
}
