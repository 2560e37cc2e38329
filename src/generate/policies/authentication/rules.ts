/** The token rules of all policies of a workload, each with its known keys. */

import { type JwtRule, keySetKey, keySetReference, usableInlineKeys } from '../../../resources/index.ts';
import type { MeshReader } from '../../reads/index.ts';
import type { GuardedView } from '../types.ts';

export interface TokenRule {
  /** `<namespace>/<policy>[<index of the rule>]`. */
  readonly name: string;
  readonly rule: JwtRule;
  /** Key set, JSON; empty when no key is known. */
  readonly jwks: string;
}

/** In the order of the policies; none without the plugin. */
export function tokenRules(snapshot: MeshReader, { policies }: Pick<GuardedView, 'policies'>): TokenRule[] {
  if (!snapshot.settings.plugins.includes('authn')) return [];
  const table = snapshot.resources('RequestAuthentication');
  return policies.authentication.flatMap((key) => {
    const policy = table.get(key);
    if (policy === undefined) return [];
    const { meta, content } = policy;
    return (content.jwtRules ?? []).map((rule, index) => ({
      name: `${meta.namespace}/${meta.name}[${index}]`,
      rule,
      jwks: keysOf(snapshot, rule),
    }));
  });
}

function keysOf(snapshot: MeshReader, rule: JwtRule): string {
  const reference = keySetReference(rule);
  if (reference !== undefined) return snapshot.resources('JsonWebKeySet').get(keySetKey(reference))?.content.jwks ?? '';
  const inline = snapshot.memos.weak<JwtRule, string>('inline keys');
  return inline.get(rule, () => usableInlineKeys(rule.jwks ?? '') ?? '');
}
