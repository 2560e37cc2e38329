/** Regular expressions of documents: which are accepted, how large their programs are, and how they are matched. */
export { readRegex } from './check.ts';
export { compileRegex, MAX_MATCHED_PROGRAM, regexMatcher } from './compile.ts';
