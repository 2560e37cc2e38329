/** Codes that are not reported, with the reason, for people who look for them. */
export const NOT_REPORTED: Readonly<Record<string, string>> = {
  IST0001: 'internal errors are in the log',
  IST0104: 'replaced by IST0162',
  IST0105: 'images of sidecars are not compared',
  IST0114: 'of an API that no longer exists',
  IST0119: 'of an API that no longer exists',
  IST0120: 'of an API that no longer exists',
  IST0121: 'of an API that no longer exists',
  IST0122: 'a document with an invalid regular expression is refused: IST0106',
  IST0149: 'routes by claims of tokens are not supported',
};
