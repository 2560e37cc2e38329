/**
 * What a change opens or closes: rules of policies that apply to a workload before or after it, and the mode of mutual
 * TLS. Rules are compared as documents have them; whether one implies another is not computed.
 */
import type { Slices } from '../core/slices.ts';
import type { Snapshot } from '../model/index.ts';
import type { TouchedPart } from '../push/index.ts';
import { type AnyResource, isDryRun, type ResourceKey } from '../resources/index.ts';
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

export interface PolicyOutcomes {
  readonly list: readonly PolicyOutcome[];
  /** Proxies of parts that are not compared. */
  readonly left: number;
}

/** Both sides of a preview. */
export interface Sides {
  readonly before: Snapshot;
  readonly after: Snapshot;
}

/**
 * One outcome for each sentence, with the number of proxies that it is about. Yields after each policy of a part.
 * @param isLate whether the rest is left out
 */
export function* policyOutcomes(
  sides: Sides,
  parts: readonly TouchedPart[],
  isLate: () => boolean,
): Slices<PolicyOutcomes> {
  const found = new Map<string, PolicyOutcome>();
  const texts: RuleTexts = new Map();
  let left = 0;
  for (const part of parts) {
    yield;
    const proxies = part.placements.reduce((sum, { sessions }) => sum + sessions.length, 0);
    if (isLate()) {
      left += proxies;
      continue;
    }
    const rules = isSame(sides, part) ? [] : yield* rulesOf(sides, part, texts);
    const said = [...rules, ...mutualTlsOf(part)];
    if (said.length === 0) continue;
    const workloads = new Set<string>();
    for (const { sessions } of part.placements) for (const { node } of sessions) workloads.add(node.namespace);
    for (const { effect, message } of said) {
      const known = found.get(message);
      const namespaces = [...new Set([...(known?.namespaces ?? []), ...workloads])].sort();
      found.set(message, { effect, message, namespaces, proxies: (known?.proxies ?? 0) + proxies });
    }
  }
  return { list: [...found.values()], left };
}

type Sentence = Pick<PolicyOutcome, 'effect' | 'message'>;

/** Whether the same policies apply before and after the change, which is so for most parts. */
function isSame({ before, after }: Sides, part: TouchedPart): boolean {
  const [was, is] = [policiesOf(part.before), policiesOf(part.after)];
  if (was === undefined || is === undefined) return true;
  return (
    areSame(was.authorization, is.authorization, (key) => resourceOf(before, key) === resourceOf(after, key)) &&
    areSame(was.authentication, is.authentication, (key) => tokensOf(before, key) === tokensOf(after, key))
  );
}

function areSame(
  keys: readonly ResourceKey[],
  others: readonly ResourceKey[],
  isSameResource: (key: ResourceKey) => boolean,
): boolean {
  return keys.length === others.length && keys.every((key, at) => key === others[at] && isSameResource(key));
}

function policiesOf(view: TouchedPart['before']) {
  return view !== undefined && 'policies' in view ? view.policies : undefined;
}

function resourceOf(snapshot: Snapshot, key: ResourceKey) {
  return snapshot.resources('AuthorizationPolicy').get(key);
}

function tokensOf(snapshot: Snapshot, key: ResourceKey) {
  return snapshot.resources('RequestAuthentication').get(key);
}

function* rulesOf({ before, after }: Sides, part: TouchedPart, texts: RuleTexts): Slices<readonly Sentence[]> {
  const was = yield* appliedTo(before, part.before, texts);
  const is = yield* appliedTo(after, part.after, texts);
  return was === undefined || is === undefined ? [] : [...ruleSentences(was, is)];
}

function* ruleSentences(was: Applied, is: Applied): Generator<Sentence> {
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

/** The rules of a document as JSON, so that a policy of many parts is written once. */
type RuleTexts = Map<AnyResource, readonly Rule[]>;

function* appliedTo(snapshot: Snapshot, view: TouchedPart['before'], texts: RuleTexts): Slices<Applied | undefined> {
  const policies = policiesOf(view);
  if (policies === undefined) return undefined;
  const rules = { ALLOW: [] as Rule[], DENY: [] as Rule[], CUSTOM: [] as Rule[], JWT: [] as Rule[] };
  const allowing: ResourceKey[] = [];
  for (const policy of policies.authorization) {
    const resource = resourceOf(snapshot, policy);
    if (resource === undefined || isDryRun(resource)) continue;
    const { action = 'ALLOW', rules: own = [] } = resource.content;
    if (action === 'AUDIT') continue;
    if (action === 'ALLOW') allowing.push(policy);
    for (const rule of textsOf(resource, policy, own, texts)) rules[action].push(rule);
    yield;
  }
  for (const policy of policies.authentication) {
    const resource = tokensOf(snapshot, policy);
    if (resource === undefined) continue;
    for (const rule of textsOf(resource, policy, resource.content.jwtRules ?? [], texts)) rules.JWT.push(rule);
    yield;
  }
  return { rules, allowing };
}

function textsOf(
  resource: AnyResource,
  policy: ResourceKey,
  rules: readonly unknown[],
  texts: RuleTexts,
): readonly Rule[] {
  const known = texts.get(resource) ?? rules.map((rule) => ({ policy, text: JSON.stringify(rule) }));
  texts.set(resource, known);
  return known;
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
