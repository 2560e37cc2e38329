/**
 * What a change opens or closes: rules of policies that apply to a workload before or after it, and the mode of mutual
 * TLS. Rules are compared as documents have them; whether one implies another is not computed.
 */
import type { Snapshot } from '../model/index.ts';
import type { TouchedPart } from '../push/index.ts';
import { isDryRun, type ResourceKey } from '../resources/index.ts';
import type { PolicyOutcome } from './types.ts';

type Effect = PolicyOutcome['effect'];

interface Rule {
  readonly policy: ResourceKey;
  readonly text: string;
}

/** The rules that apply to a part, by action. `JWT`: rules about tokens. */
type Rules = Readonly<Record<'ALLOW' | 'DENY' | 'CUSTOM' | 'JWT', readonly Rule[]>>;

/** What is said of rules that are added and removed. */
const WORDS = {
  ALLOW: { added: 'opens', removed: 'closes', what: 'rules that allow requests' },
  DENY: { added: 'closes', removed: 'opens', what: 'rules that deny requests' },
  CUSTOM: { added: 'closes', removed: 'opens', what: 'rules that ask an authorizer' },
  JWT: { added: 'closes', removed: 'opens', what: 'rules that verify tokens' },
} as const satisfies Record<keyof Rules, { added: Effect; removed: Effect; what: string }>;

/** Whether there are policies that allow requests: the others are denied then. Also one without rules counts. */
interface Applied {
  readonly rules: Rules;
  readonly allowing: readonly ResourceKey[];
}

/** One outcome for each sentence, with the number of proxies that it is about. */
export function policyOutcomes(
  before: Snapshot,
  after: Snapshot,
  parts: readonly TouchedPart[],
): readonly PolicyOutcome[] {
  const found = new Map<string, PolicyOutcome>();
  for (const part of parts) {
    const proxies = part.placements.reduce((sum, { sessions }) => sum + sessions.length, 0);
    const workloads = new Set(part.placements.flatMap(({ sessions }) => sessions.map(({ node }) => node.namespace)));
    for (const { effect, message } of [...rulesOf(before, after, part), ...mutualTlsOf(part)]) {
      const known = found.get(message);
      const namespaces = [...new Set([...(known?.namespaces ?? []), ...workloads])].sort();
      found.set(message, { effect, message, namespaces, proxies: (known?.proxies ?? 0) + proxies });
    }
  }
  return [...found.values()];
}

type Sentence = Pick<PolicyOutcome, 'effect' | 'message'>;

function* rulesOf(before: Snapshot, after: Snapshot, part: TouchedPart): Generator<Sentence> {
  const [was, is] = [appliedTo(before, part.before), appliedTo(after, part.after)];
  if (was === undefined || is === undefined) return;
  const [wasAllowing, isAllowing] = [was.allowing.length > 0, is.allowing.length > 0];
  if (!wasAllowing && isAllowing)
    yield { effect: 'closes', message: `requests that no rule of ${is.allowing.join(', ')} allows are denied` };
  if (wasAllowing && !isAllowing)
    yield { effect: 'opens', message: `requests need no rule of ${was.allowing.join(', ')} any more` };
  for (const action of ['ALLOW', 'DENY', 'CUSTOM', 'JWT'] as const) {
    // Rules of the first policy that allows requests are exceptions from what it closes.
    if (action === 'ALLOW' && wasAllowing !== isAllowing) continue;
    const { added, removed, what } = WORDS[action];
    const [gone, news] = [without(was.rules[action], is.rules[action]), without(is.rules[action], was.rules[action])];
    for (const [policy, count] of byPolicy(news)) yield { effect: added, message: `${policy} adds ${count} ${what}` };
    for (const [policy, count] of byPolicy(gone))
      yield { effect: removed, message: `${policy} loses ${count} ${what}` };
  }
}

function without(rules: readonly Rule[], others: readonly Rule[]): readonly Rule[] {
  const known = new Set(others.map(({ text }) => text));
  return rules.filter(({ text }) => !known.has(text));
}

function byPolicy(rules: readonly Rule[]): ReadonlyMap<ResourceKey, number> {
  const counts = new Map<ResourceKey, number>();
  for (const { policy } of rules) counts.set(policy, (counts.get(policy) ?? 0) + 1);
  return counts;
}

function appliedTo(snapshot: Snapshot, view: TouchedPart['before']): Applied | undefined {
  if (view === undefined || !('policies' in view)) return undefined;
  const rules = { ALLOW: [] as Rule[], DENY: [] as Rule[], CUSTOM: [] as Rule[], JWT: [] as Rule[] };
  const allowing: ResourceKey[] = [];
  for (const policy of view.policies.authorization) {
    const resource = snapshot.resources('AuthorizationPolicy').get(policy);
    if (resource === undefined || isDryRun(resource)) continue;
    const { action = 'ALLOW', rules: own = [] } = resource.content;
    if (action === 'AUDIT') continue;
    if (action === 'ALLOW') allowing.push(policy);
    rules[action].push(...own.map((rule) => ({ policy, text: textOf(rule) })));
  }
  for (const policy of view.policies.authentication) {
    const resource = snapshot.resources('RequestAuthentication').get(policy);
    rules.JWT.push(...(resource?.content.jwtRules ?? []).map((rule) => ({ policy, text: textOf(rule) })));
  }
  return { rules, allowing };
}

function textOf(rule: unknown): string {
  return JSON.stringify(rule);
}

function* mutualTlsOf({ before, after }: TouchedPart): Generator<Sentence> {
  if (before === undefined || after === undefined) return;
  if (!('peerAuthentication' in before) || !('peerAuthentication' in after)) return;
  const [was, is] = [before.peerAuthentication, after.peerAuthentication];
  if (was.mode !== is.mode) yield modeChange('mutual TLS', was.mode, is.mode);
  for (const port of new Set([...Object.keys(was.ports), ...Object.keys(is.ports)])) {
    const [old, now] = [was.ports[Number(port)] ?? was.mode, is.ports[Number(port)] ?? is.mode];
    if (old !== now) yield modeChange(`mutual TLS of port ${port}`, old, now);
  }
}

function modeChange(what: string, was: string, is: string): Sentence {
  return { effect: is === 'STRICT' ? 'closes' : 'opens', message: `${what}: ${was} becomes ${is}` };
}
