/**
 * The substitute for a refused rule of the policy component: it refuses the requests to which the rule applies, as far
 * as its condition can be read. A rule of which every action can be read keeps them: if it only records, nothing is
 * refused.
 */
import { isObject } from '../../core/objects.ts';
import { type PolicyRuleSpec, policyRule } from '../schema/policy.ts';
import { isExpression, MAX_ACTIONS } from '../validate/policy.ts';

/** No document can have such a name: what an instance without a document does is not known, so it may decide. */
const UNKNOWN_ACTION = { handler: '~', instances: ['~'] };

const ACTIONS = policyRule.shape.actions.unwrap().min(1).max(MAX_ACTIONS);

/** @param spec the spec, if it could be parsed at all */
export function substituteRule(spec: unknown): PolicyRuleSpec {
  const { match, actions, ...others } = isObject(spec) ? spec : {};
  const read = ACTIONS.safeParse(actions);
  const isWhole = Object.keys(others).length === 0 && read.success && read.data.every(hasInstances);
  const isCondition = typeof match === 'string' && match !== '' && isExpression(match);
  return {
    ...(isCondition && { match }),
    actions: isWhole ? read.data : [UNKNOWN_ACTION],
  };
}

function hasInstances({ instances = [] }: { readonly instances?: readonly string[] | undefined }): boolean {
  return instances.length > 0;
}
