/** Entry point of the policy component: its documents, and what the thread that decides needs. */
export type { AdapterHost } from './adapters/types.ts';
export type {
  CallerRecord,
  ServiceRecord,
  WorkloadAddress,
  WorkloadChanges,
  WorkloadRecord,
} from './attributes/workloads.ts';
export {
  compilePolicySteps,
  factsOf,
  instanceMeanings,
  type Matcher,
  matcherOf,
  policyDocument,
  type ReachedWorkload,
  STANDARD_ATTRIBUTES,
} from './config/index.ts';
export { policyLanguage } from './language.ts';
export {
  type FromPolicyThread,
  type PolicyThreadData,
  packed,
  type ToPolicyThread,
  unpacked,
} from './protocol.ts';
export { PolicyThread, type PolicyThreadOptions, type ThreadHost } from './thread.ts';
export type { PolicyConfig, PolicyCounts, PolicyDocument, PolicyOptions, PolicyProblem } from './types.ts';
