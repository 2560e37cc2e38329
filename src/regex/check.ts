/** Whether an Envoy accepts a regular expression, and how large its program is there. */
import { BASE_SIZE } from './program.ts';
import { Reader, SyntaxProblem } from './syntax.ts';

/**
 * Maximum length of a regular expression: RE2 runs in linear time, but its program grows with the pattern
 * (CVE-2022-39278).
 */
export const MAX_REGEX_LENGTH = 1024;
/**
 * Maximum program of a regular expression. Envoy refuses route configurations with a larger program, because bootstraps
 * set `re2.max_program_size.error_level`.
 */
export const MAX_REGEX_PROGRAM = 32_768;

/** What is wrong with an expression, or the size of its program in instructions, at most. */
export type RegexCheck = { readonly problem: string } | { readonly size: number };

/**
 * @param maxProgram a lower limit for expressions that are not sent to Envoys
 */
export function readRegex(pattern: string, maxProgram = MAX_REGEX_PROGRAM): RegexCheck {
  if (pattern === '') return { problem: 'expected a regular expression that is not empty' };
  if (pattern.length > MAX_REGEX_LENGTH) {
    return {
      problem: `expected a regular expression of at most ${MAX_REGEX_LENGTH} characters, got ${pattern.length}`,
    };
  }
  try {
    const size = BASE_SIZE + new Reader(pattern).read().size;
    if (size <= maxProgram) return { size };
    return { problem: `expected a simpler regular expression: its program has ${size} steps, at most ${maxProgram}` };
  } catch (error) {
    if (!(error instanceof SyntaxProblem)) throw error;
    return { problem: `expected a regular expression (RE2): ${error.message}` };
  }
}
