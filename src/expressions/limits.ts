/**
 * Limits of expressions. The languages have no loops: a node is evaluated at most once, so that the number of nodes and
 * the steps that functions spend on strings limit the time of an evaluation.
 */

/** Characters of an expression. */
export const MAX_LENGTH = 4096;
/** Operators, calls, names and literals of an expression: an evaluation takes microseconds. */
export const MAX_NODES = 512;
/** Parentheses, arguments, indexes and unary operators inside each other: the parser is recursive. */
export const MAX_DEPTH = 32;
/** Characters of a computed string: headers and records that it may become are not larger. */
export const MAX_STRING = 65_536;
/**
 * Characters that the functions of one evaluation may read, times the size of the program for regular expressions: a
 * few milliseconds.
 */
export const MAX_STEPS = 250_000;
/** Instructions of a regular expression in a literal. */
export const MAX_PATTERN_PROGRAM = 1000;
