/** The configuration of the policy component: its documents, compiled and checked as a whole. */
export { compilePolicy, compilePolicySteps } from './compile.ts';
export { policyDocument } from './documents.ts';
export { instanceMeanings } from './params.ts';
export { factsOf, type Matcher, matcherOf, type ReachedWorkload } from './reach.ts';
export { STANDARD_ATTRIBUTES } from './vocabulary.ts';
