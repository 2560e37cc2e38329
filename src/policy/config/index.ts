/** The configuration of the policy component: its documents, compiled and checked as a whole. */
export { compilePolicy } from './compile.ts';
export { policyDocument } from './documents.ts';
export { type Reach, reachOf } from './reach.ts';
export { STANDARD_ATTRIBUTES } from './vocabulary.ts';
