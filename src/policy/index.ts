/** The policy component: decisions and records that Envoys ask for, configured by documents. */
export {
  compilePolicy,
  compilePolicySteps,
  policyDocument,
  type Reach,
  reachOf,
  STANDARD_ATTRIBUTES,
} from './config/index.ts';
export type { PolicyConfig, PolicyCounts, PolicyDocument, PolicyOptions, PolicyProblem } from './types.ts';
