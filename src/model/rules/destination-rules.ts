/**
 * Destination rules by namespace and host; rules of one namespace for one host are merged. The rule for a host is
 * looked up from the most specific pattern to the least, in the scope's namespace, then in the service's, then in the
 * root namespace.
 */
import type { Memos } from '../../core/memo.ts';
import { PMap } from '../../core/pmap.ts';
import type { Resource, ResourceKey } from '../../resources/index.ts';
import { deepEqual, keepIfEqual } from '../common/equal.ts';
import { fullHostname, hostMatches, matchingPatterns } from '../common/hosts.ts';
import { isEmptySelector, type Labels, labelsMatch } from '../common/labels.ts';
import { compareCreated, compareText } from '../common/order.ts';
import { isVisible, normaliseExportTo } from '../common/visibility.ts';
import type { DefinitionContext } from '../services/definitions.ts';
import type { MergedDestinationRule, RuleVariant, Scope, Service } from '../types/types.ts';

type DestinationRule = Resource<'DestinationRule'>;

interface Rule {
  readonly key: ResourceKey;
  readonly created: number | undefined;
  readonly content: DestinationRule['content'];
  readonly exportTo: readonly string[];
}

/** The rules of one namespace for one host, oldest first. */
export interface RuleGroup {
  readonly namespace: string;
  readonly host: string;
  readonly rules: readonly Rule[];
  /** The rules with a `workloadSelector`, which only apply to proxies of the namespace. */
  readonly selecting: readonly Rule[];
  /** The rules that only gateways read (`gatewaysOnly`). The first is in force. */
  readonly gatewayRules: readonly Rule[];
  readonly all: MergedDestinationRule;
  readonly duplicateSubsets: number;
}

/** Namespace → host → rules. */
export type RuleTable = PMap<PMap<RuleGroup>>;

function makeGroup(namespace: string, host: string, all: readonly Rule[]): RuleGroup {
  const gatewayRules = all.filter(({ content }) => content.gatewaysOnly === true);
  const [rules, selecting] = [false, true].map((selects) =>
    all.filter(({ content }) => content.gatewaysOnly !== true && selects !== isEmptySelector(selectorOf(content))),
  ) as [Rule[], Rule[]];
  const { merged, duplicateSubsets } = mergeRules(namespace, host, rules);
  return { namespace, host, rules, selecting, gatewayRules, all: merged, duplicateSubsets };
}

function selectorOf({ workloadSelector }: Rule['content']): Labels | undefined {
  return workloadSelector?.labels;
}

/** Merges the subsets of rules; the first subset of each name and the first traffic policy are used. */
function mergeRules(namespace: string, host: string, rules: readonly Rule[]) {
  const subsets = new Map<string, MergedDestinationRule['subsets'][number]>();
  let duplicateSubsets = 0;
  for (const { content } of rules) {
    for (const subset of content.subsets ?? []) {
      if (subsets.has(subset.name)) duplicateSubsets++;
      else subsets.set(subset.name, subset);
    }
  }
  const merged: MergedDestinationRule = {
    host,
    namespace,
    trafficPolicy: rules.find(({ content }) => content.trafficPolicy !== undefined)?.content.trafficPolicy,
    subsets: [...subsets.values()],
    sources: rules.map(({ key }) => key),
  };
  return { merged, duplicateSubsets };
}

function seenFrom(memos: Memos, group: RuleGroup, namespace: string): MergedDestinationRule | undefined {
  if (group.rules.length === 0) return undefined;
  if (group.namespace === namespace) return group.all;
  const visible = group.rules.filter(({ exportTo }) => isVisible(exportTo, group.namespace, namespace));
  if (visible.length === group.rules.length) return group.all;
  if (visible.length === 0) return undefined;
  const id = visible.map((rule) => group.rules.indexOf(rule)).join();
  const partial = memos
    .weak<RuleGroup, Map<string, MergedDestinationRule>>('merged rules in part')
    .get(group, () => new Map());
  const known = partial.get(id);
  if (known !== undefined) return known;
  const { merged } = mergeRules(group.namespace, group.host, visible);
  partial.set(id, merged);
  return merged;
}

/**
 * Groups that match a host, most specific first. Kept until the namespace's rules change: a mesh-wide rule of the root
 * namespace is looked up for every host of every scope, with the same result.
 */
function matchesInRoot(memos: Memos, rules: PMap<RuleGroup>, service: Service): readonly RuleGroup[] {
  const byHost = memos
    .weak<PMap<RuleGroup>, Map<string, readonly RuleGroup[]>>('rules of the root namespace')
    .get(rules, () => new Map());
  let groups = byHost.get(service.hostname);
  if (groups === undefined) {
    groups = matchesIn(memos, rules, service);
    byHost.set(service.hostname, groups);
  }
  return groups;
}

/** Whether a namespace only has rules for exact hosts: wildcard patterns of hosts need not be looked up then. */
function areExact(memos: Memos, rules: PMap<RuleGroup>): boolean {
  return memos
    .weak<PMap<RuleGroup>, boolean>('rules without patterns')
    .get(rules, () => ![...rules.keys()].some((host) => host.startsWith('*')));
}

function matchesIn(memos: Memos, rules: PMap<RuleGroup>, service: Service): readonly RuleGroup[] {
  if (areExact(memos, rules)) {
    const group = rules.get(service.hostname);
    return group === undefined ? NO_GROUPS : [group];
  }
  return patternsOf(memos, service).flatMap((pattern) => rules.get(pattern) ?? []);
}

const NO_GROUPS: readonly RuleGroup[] = [];

function patternsOf(memos: Memos, service: Service): readonly string[] {
  return memos
    .weak<Service, readonly string[]>('patterns of a host')
    .get(service, () => matchingPatterns(service.hostname));
}

export function findDestinationRule(
  memos: Memos,
  table: RuleTable,
  rootNamespace: string,
  namespace: string,
  service: Service,
): MergedDestinationRule | undefined {
  if (table.size === 0) return undefined;
  const found = findRule(memos, table, rootNamespace, namespace, service);
  const [atGateways] = table.get(service.namespace)?.get(service.hostname)?.gatewayRules ?? [];
  return atGateways === undefined ? found : withGatewayRule(memos, found, atGateways, service);
}

function findRule(
  memos: Memos,
  table: RuleTable,
  rootNamespace: string,
  namespace: string,
  service: Service,
): MergedDestinationRule | undefined {
  const selecting: RuleGroup[] = [];
  for (const owner of new Set([namespace, service.namespace, rootNamespace])) {
    const rules = table.get(owner);
    if (rules === undefined) continue;
    const groups = owner === rootNamespace ? matchesInRoot(memos, rules, service) : matchesIn(memos, rules, service);
    for (const group of groups) {
      if (owner === namespace && group.selecting.length > 0) selecting.push(group);
      const merged = seenFrom(memos, group, namespace);
      if (merged !== undefined) return withVariants(memos, merged, selecting);
    }
  }
  return withVariants(memos, undefined, selecting);
}

/**
 * @param groups the groups with rules for some proxies, most specific host first
 */
function withVariants(
  memos: Memos,
  rule: MergedDestinationRule | undefined,
  groups: readonly RuleGroup[],
): MergedDestinationRule | undefined {
  const [first, ...others] = groups;
  if (first === undefined) return rule;
  const make = () => joined(rule, groups);
  // Many hosts may match one pattern: they share the result.
  return others.length > 0
    ? make()
    : memos.pairs<RuleGroup, object, MergedDestinationRule>('rules with variants').get(first, rule ?? first, make);
}

function joined(rule: MergedDestinationRule | undefined, groups: readonly RuleGroup[]): MergedDestinationRule {
  const variants = groups.flatMap(variantsOf);
  const sources = [...(rule?.sources ?? []), ...variants.flatMap((variant) => variant.rule.sources)];
  const [{ host, namespace }] = groups as readonly [RuleGroup];
  const base = rule ?? { host, namespace, trafficPolicy: undefined, subsets: [], onlyVariants: true };
  return { ...base, sources: [...new Set(sources)], variants };
}

/** Rules with equal selectors are merged with each other, and then with those without. The oldest selector is first. */
function variantsOf({ namespace, host, rules, selecting }: RuleGroup): readonly RuleVariant[] {
  const selectors = new Map<string, { labels: Labels; rules: Rule[] }>();
  for (const rule of selecting) {
    const labels = selectorOf(rule.content) ?? {};
    const text = JSON.stringify(Object.entries(labels).sort(([a], [b]) => compareText(a, b)));
    const known = selectors.get(text) ?? { labels, rules: [] };
    selectors.set(text, known);
    known.rules.push(rule);
  }
  return Array.from(selectors.values(), ({ labels, rules: own }) => {
    return { labels, rule: mergeRules(namespace, host, [...own, ...rules]).merged };
  });
}

/** The rule for a proxy with these labels. */
export function selectedRule(
  rule: MergedDestinationRule | undefined,
  labels: Labels,
): MergedDestinationRule | undefined {
  if (rule?.variants === undefined) return rule;
  const variant = rule.variants.find((each) => labelsMatch(each.labels, labels));
  return variant?.rule ?? (rule.onlyVariants === true ? undefined : rule);
}

/** The labels `key=value` of proxies by which rules of a namespace select them. */
export function selectedLabels(
  memos: Memos,
  rules: PMap<RuleGroup>,
  { services, destinationRule: find }: Pick<Scope, 'services' | 'destinationRule'>,
): readonly string[] {
  const groups = memos
    .weak<PMap<RuleGroup>, readonly RuleGroup[]>('rules for some proxies')
    .get(rules, () => [...rules.values()].filter(({ selecting }) => selecting.length > 0));
  if (groups.length === 0) return NO_SELECTED;
  return memos.weak<typeof find, readonly string[]>('labels of rules').get(find, () => {
    const labels = new Set<string>();
    const isCovered = (host: string) => groups.some((group) => hostMatches(group.host, host));
    for (const host of services.keys()) {
      const variants = isCovered(host) ? find(host)?.variants : undefined;
      for (const variant of variants ?? []) for (const text of labelTexts(variant.labels)) labels.add(text);
    }
    return [...labels].sort();
  });
}

const NO_SELECTED: readonly string[] = [];

function labelTexts(labels: Labels = {}): string[] {
  return Object.entries(labels).map(([key, value]) => `${key}=${value}`);
}

/** The same object for the same rules, so that results that are generated from it can be cached. */
function withGatewayRule(
  memos: Memos,
  rule: MergedDestinationRule | undefined,
  { key, content }: Rule,
  { hostname, namespace }: Service,
): MergedDestinationRule {
  const known = memos
    .weak<object, Map<MergedDestinationRule | undefined, MergedDestinationRule>>('rules of gateways')
    .get(content, () => new Map());
  let merged = known.get(rule);
  if (merged === undefined) {
    const base: MergedDestinationRule = rule ?? {
      host: hostname,
      namespace,
      trafficPolicy: undefined,
      subsets: [],
      sources: [],
    };
    const own = { atGateways: content.trafficPolicy };
    const variants = base.variants?.map((each) => ({ ...each, rule: { ...each.rule, ...own } }));
    // A proxy that no variant selects has these settings, too.
    const { onlyVariants: _, ...shared } = base;
    merged = { ...shared, ...own, sources: [...base.sources, key], ...(variants && { variants }) };
    // The number of rules that a namespace may see; older entries belong to former tables.
    if (known.size >= MAX_RULES_SEEN) known.clear();
    known.set(rule, merged);
  }
  return merged;
}

const MAX_RULES_SEEN = 64;

/** A changed group: the namespace and the host pattern of its rules. */
export interface RuleGroupChange {
  readonly namespace: string;
  readonly host: string;
}

/** Updates the table; returns the changed groups, and the change of the number of duplicate subsets. */
export function updateRules(
  table: RuleTable,
  changed: ReadonlyMap<
    ResourceKey,
    { readonly before: DestinationRule | undefined; readonly after: DestinationRule | undefined }
  >,
  context: DefinitionContext,
): { table: RuleTable; changes: readonly RuleGroupChange[]; duplicateSubsets: number } {
  const drafts = new Map<string, { namespace: string; host: string; rules: Map<ResourceKey, Rule> }>();
  const draftOf = (resource: DestinationRule) => {
    const { namespace } = resource.meta;
    const host = fullHostname(resource.content.host, namespace, context.settings.domain);
    const id = `${namespace}/${host}`;
    const known = drafts.get(id);
    if (known !== undefined) return known;
    const group = table.get(namespace)?.get(host);
    const before = group === undefined ? [] : [...group.rules, ...group.selecting, ...group.gatewayRules];
    const rules = new Map(before.map((rule) => [rule.key, rule]));
    const draft = { namespace, host, rules };
    drafts.set(id, draft);
    return draft;
  };
  for (const [key, { before, after }] of changed) {
    if (before !== undefined) draftOf(before).rules.delete(key);
    if (after !== undefined) draftOf(after).rules.set(key, ruleOf(key, after, context));
  }
  const changes: RuleGroupChange[] = [];
  const byNamespace = new Map<string, [string, RuleGroup | undefined][]>();
  let duplicateSubsets = 0;
  for (const { namespace, host, rules } of drafts.values()) {
    const before = table.get(namespace)?.get(host);
    const after = nextGroup(before, namespace, host, [...rules.values()].sort(compareRules));
    if (after === before) continue;
    changes.push({ namespace, host });
    duplicateSubsets += (after?.duplicateSubsets ?? 0) - (before?.duplicateSubsets ?? 0);
    const list = byNamespace.get(namespace);
    if (list === undefined) byNamespace.set(namespace, [[host, after]]);
    else list.push([host, after]);
  }
  const next = table.with(
    [...byNamespace].map(([namespace, groups]) => {
      const map = (table.get(namespace) ?? PMap.empty<RuleGroup>()).with(groups);
      return [namespace, map.size === 0 ? undefined : map] as const;
    }),
  );
  return { table: next, changes, duplicateSubsets };
}

function ruleOf(key: ResourceKey, { meta, content }: DestinationRule, context: DefinitionContext): Rule {
  const exportTo = normaliseExportTo(content.exportTo, context.mesh.defaultDestinationRuleExportTo, meta.namespace);
  return { key, created: meta.created, content, exportTo };
}

/** All rules of a group are of one namespace, so keys and names have the same order. */
function compareRules(a: Rule, b: Rule): number {
  return compareCreated(a.created, b.created) || compareText(a.key, b.key);
}

function nextGroup(
  before: RuleGroup | undefined,
  namespace: string,
  host: string,
  rules: readonly Rule[],
): RuleGroup | undefined {
  if (rules.length === 0) return undefined;
  const made = makeGroup(namespace, host, rules);
  if (
    before !== undefined &&
    deepEqual(before.rules, made.rules) &&
    deepEqual(before.selecting, made.selecting) &&
    deepEqual(before.gatewayRules, made.gatewayRules)
  ) {
    return before;
  }
  return { ...made, all: keepIfEqual(before?.all, made.all) };
}
