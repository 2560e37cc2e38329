/** One header field. */
export interface HeaderField {
  /** In lower case; pseudo headers begin with a colon. */
  readonly name: string;
  readonly value: string;
}
