/** Resources of the policy component as documents: plain data that threads can pass on. */
import { type AnyResource, POLICY_KINDS, type PolicyKind } from '../../resources/index.ts';
import type { PolicyDocument } from '../types.ts';

const KINDS: ReadonlySet<string> = new Set(POLICY_KINDS);

/** Undefined for resources of other kinds. */
export function policyDocument({ kind, meta, content, origin }: AnyResource): PolicyDocument | undefined {
  if (!KINDS.has(kind)) return undefined;
  const { namespace, name, annotations, substitute } = meta;
  return {
    kind: kind as PolicyKind,
    namespace,
    name,
    annotations,
    spec: content,
    origin,
    ...(substitute !== undefined && { substitute: true }),
  };
}
