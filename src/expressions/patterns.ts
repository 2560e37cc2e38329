/** `matches`: regular expressions (RE2) in literals, compiled once, or computed, compiled for each evaluation. */
import { MAX_MATCHED_PROGRAM, readRegex, regexMatcher } from '../regex/index.ts';
import { type Compiled, Context, required } from './compiled.ts';
import { MAX_PATTERN_PROGRAM } from './limits.ts';
import { expressionError, type Node } from './nodes.ts';
import { EvaluationError } from './types.ts';

/** Compiling costs about as much as this many steps of a match. */
const COMPILE_STEPS = 20_000;

/** Throws CtlError `invalid_argument` for a literal that is no regular expression. */
export function compileMatches(patternNode: Node, pattern: Compiled, text: Compiled): Compiled {
  if (!pattern.constant) return matchesComputed(pattern, text);
  const literal = pattern.value(new Context(DEFAULT_ATTRIBUTES)) as string;
  const read = readRegex(literal, MAX_PATTERN_PROGRAM);
  if ('problem' in read) throw expressionError(patternNode.at, read.problem);
  const matches = regexMatcher(literal);
  return required('BOOL', (context) => {
    const string = text.value(context) as string;
    context.spend(string.length * read.size);
    return matches(string);
  });
}

const DEFAULT_ATTRIBUTES = { get: (): undefined => undefined };

function matchesComputed(pattern: Compiled, text: Compiled): Compiled {
  return required('BOOL', (context) => {
    const computed = pattern.value(context) as string;
    const read = readRegex(computed, MAX_MATCHED_PROGRAM);
    if ('problem' in read) throw new EvaluationError(read.problem);
    const string = text.value(context) as string;
    context.spend(COMPILE_STEPS + string.length * read.size);
    return regexMatcher(computed)(string);
  });
}
