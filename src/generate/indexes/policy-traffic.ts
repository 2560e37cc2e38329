/**
 * What the policy component has to decide and record, by the namespace of the rules: proxies ask it only where a rule
 * can match their traffic. Where a rule's instances are not known, it is expected to decide.
 */
import { type Facts, matchesConnections, readsRequests } from '../../expressions/index.ts';
import type { MeshSnapshot } from '../../model/index.ts';
import { factsOf, instanceMeanings, type Matcher, matcherOf, type ReachedWorkload } from '../../policy/index.ts';
import { type Resource, type ResourceKey, resourceKey } from '../../resources/index.ts';

/** What the rules of a namespace need. */
export interface PolicyTraffic {
  /** Decisions about requests. */
  readonly checks: boolean;
  /** Decisions about TCP connections. */
  readonly connections: boolean;
  /** Records of requests and connections. */
  readonly reports: boolean;
  /** Names of headers that records must contain, lower case, sorted. */
  readonly requestHeaders: readonly string[];
  readonly responseHeaders: readonly string[];
}

/** Templates inside of records. */
const REPORTS: ReadonlySet<string> = new Set(['logentry', 'metric', 'reportnothing']);

/** Headers that the rules of one namespace can have recorded; of more, the first are. */
const MAX_HEADERS = 64;

type Rule = Resource<'rule'>;
type Rules = ReturnType<typeof rulesOf>;

function rulesOf(mesh: MeshSnapshot) {
  return mesh.resources('rule');
}

function rulesByNamespace(mesh: MeshSnapshot): ReadonlyMap<string, readonly Rule[]> {
  const rules = rulesOf(mesh);
  const memo = mesh.memos.weak<Rules, ReadonlyMap<string, readonly Rule[]>>('rules by namespace');
  return memo.get(rules, () => Map.groupBy(rules.values(), ({ meta }) => meta.namespace));
}

/** What is computed of the rules and instances of a snapshot, namespace by namespace, when it is asked for. */
interface Computed {
  readonly traffic: Map<string, PolicyTraffic>;
  readonly reach: Map<string, RuleReach>;
}

function computedOf(mesh: MeshSnapshot): Computed {
  const instances = mesh.resources('instance');
  const memo = mesh.memos.pairs<Rules, typeof instances, Computed>('policy traffic');
  return memo.get(rulesOf(mesh), instances, () => ({ traffic: new Map(), reach: new Map() }));
}

function remembered<V>(map: Map<string, V>, key: string, make: () => V): V {
  const known = map.get(key);
  if (known !== undefined) return known;
  const made = make();
  map.set(key, made);
  return made;
}

/** What the rules of a namespace need; undefined: it has none. */
export function policyTrafficOf(mesh: MeshSnapshot, namespace: string): PolicyTraffic | undefined {
  const rules = rulesByNamespace(mesh).get(namespace);
  return rules && remembered(computedOf(mesh).traffic, namespace, () => trafficOf(mesh, rules));
}

/**
 * The namespaces whose rules need something else than before.
 * @param keys those of the documents that have changed
 */
export function changedPolicyTraffic(
  previous: MeshSnapshot,
  next: MeshSnapshot,
  keys: Iterable<ResourceKey>,
): string[] {
  const text = (mesh: MeshSnapshot, namespace: string) => JSON.stringify(policyTrafficOf(mesh, namespace));
  return [...concernedNamespaces([previous, next], keys)].filter((each) => text(previous, each) !== text(next, each));
}

/** The namespaces whose rules may need something else: rules of all namespaces may have instances of the root one. */
function concernedNamespaces(meshes: readonly MeshSnapshot[], keys: Iterable<ResourceKey>): Set<string> {
  const found = new Set<string>();
  for (const key of keys) {
    const [kind, namespace = ''] = key.split('/');
    if (kind !== 'rule' && kind !== 'instance') continue;
    found.add(namespace);
    for (const mesh of kind === 'instance' ? meshes : [])
      if (namespace === mesh.settings.rootNamespace) for (const each of policyNamespaces(mesh)) found.add(each);
  }
  return found;
}

/** Namespaces with rules. */
export function policyNamespaces(mesh: MeshSnapshot): Iterable<string> {
  return rulesByNamespace(mesh).keys();
}

/** What a proxy asks the component for. */
export interface PolicyNeeds {
  readonly checks?: true;
  readonly connections?: true;
  readonly reports?: true;
}

/** The rules of a namespace by the workloads that they reach. */
interface RuleReach {
  /** For those that may match traffic of all workloads. */
  readonly always: PolicyNeeds;
  /** Others, with what they need. */
  readonly narrow: readonly { readonly match: string; readonly matches: Matcher; readonly needs: PolicyNeeds }[];
}

/** Rules of a namespace that are tried for each workload; further ones count as if they reached all workloads. */
const MAX_NARROW = 256;

const ALL: PolicyNeeds = { checks: true, connections: true, reports: true };

function reachOf(mesh: MeshSnapshot, namespace: string): RuleReach {
  return remembered(computedOf(mesh).reach, namespace, () => {
    const matchers = mesh.memos.weak<Rule, Matcher>('conditions of rules');
    let always: PolicyNeeds = {};
    const narrow: RuleReach['narrow'][number][] = [];
    for (const rule of rulesByNamespace(mesh).get(namespace) ?? []) {
      const needs = needsOf(trafficOf(mesh, [rule]));
      const { match = '' } = rule.content;
      const isNarrow = narrow.length < MAX_NARROW && /\b(?:destination|context)\./.test(match);
      if (isNarrow) narrow.push({ match, matches: matchers.get(rule, () => matcherOf(match)), needs });
      else always = { ...always, ...needs };
    }
    return { always, narrow };
  });
}

function needsOf({ checks, connections, reports }: PolicyTraffic): PolicyNeeds {
  return { ...(checks && { checks }), ...(connections && { connections }), ...(reports && { reports }) };
}

/** What rules make the proxy of a workload ask for: those of its namespace, and of the root namespace. */
export function policyNeeds(mesh: MeshSnapshot, workload: ReachedWorkload): PolicyNeeds {
  const { rootNamespace } = mesh.settings;
  const all = [...new Set([rootNamespace, workload.namespace])].map((each) => reachOf(mesh, each));
  let needs: PolicyNeeds = Object.assign({}, ...all.map(({ always }) => always));
  const facts = factsOf(workload);
  for (const rule of all.flatMap(({ narrow }) => narrow)) {
    if (Object.keys(needs).length === Object.keys(ALL).length) break;
    const isNew = Object.keys(rule.needs).some((each) => !(each in needs));
    if (isNew && rule.matches(facts)) needs = { ...needs, ...rule.needs };
  }
  return needs;
}

/**
 * Whether the needs of a workload's proxy may have changed, whatever its addresses have: services, and other labels.
 * @param keys those of the documents that have changed
 * @returns undefined: of no workload
 */
export function changedNeeds(
  previous: MeshSnapshot,
  next: MeshSnapshot,
  keys: Iterable<ResourceKey>,
): ((workload: Pick<ReachedWorkload, 'namespace'>) => boolean) | undefined {
  const concerned = concernedNamespaces([previous, next], keys);
  if (concerned.size === 0) return undefined;
  const { rootNamespace } = next.settings;
  return (workload) => {
    const namespaces = [rootNamespace, workload.namespace].filter((each) => concerned.has(each));
    if (namespaces.length === 0) return false;
    const facts = factsOf({ namespace: workload.namespace });
    const text = (mesh: MeshSnapshot): string => JSON.stringify(namespaces.map((each) => reaching(mesh, each, facts)));
    return text(previous) !== text(next);
  };
}

/** The rules of a namespace that may reach a workload. */
function reaching(mesh: MeshSnapshot, namespace: string, facts: Facts): unknown {
  const { always, narrow } = reachOf(mesh, namespace);
  return [always, narrow.filter(({ matches }) => matches(facts)).map(({ match, needs }) => [match, needs])];
}

/** Whether a document is one that decides what proxies ask. */
export function isPolicyKey(key: ResourceKey): boolean {
  return key.startsWith('rule/') || key.startsWith('instance/');
}

function trafficOf(mesh: MeshSnapshot, rules: readonly Rule[]): PolicyTraffic {
  let [checks, connections, reports] = [false, false, false];
  const texts: string[] = [];
  const forConnections = mesh.memos.weak<Rule['content'], boolean>('conditions of connections');
  const decide = mesh.memos.weak<Resource<'instance'>, boolean>('instances of connections');
  const isOfConnections = (each: Resource<'instance'>) => decide.get(each, () => decidesAboutConnections(each));
  for (const { meta, content } of rules) {
    const { actions = [], requestHeaderOperations = [], responseHeaderOperations = [] } = content;
    if (requestHeaderOperations.length + responseHeaderOperations.length > 0) checks = true;
    texts.push(content.match ?? '');
    const isForConnections = forConnections.get(content, () => matchesConnections(content.match));
    for (const reference of actions.flatMap(({ instances = [] }) => instances)) {
      const found = instancesNamed(mesh, reference, meta.namespace);
      const known = found.map(({ content: { compiledTemplate } }) => compiledTemplate);
      if (known.length === 0 || known.some((name) => name === undefined || !REPORTS.has(name))) checks = true;
      if (isForConnections && (found.length === 0 || found.some(isOfConnections))) connections = true;
      if (known.length === 0 || known.some((name) => name === undefined || REPORTS.has(name))) reports = true;
      texts.push(...found.map((each) => JSON.stringify(each.content.params ?? {}).replaceAll('\\"', '"')));
    }
  }
  const headers = (of: string) => (reports ? headersIn(texts, of) : []);
  return { checks, connections, reports, requestHeaders: headers('request'), responseHeaders: headers('response') };
}

/** Whether an instance may decide, and can be made of a connection. */
function decidesAboutConnections({ content: { compiledTemplate, params } }: Resource<'instance'>): boolean {
  const isRecord = compiledTemplate !== undefined && REPORTS.has(compiledTemplate);
  return !isRecord && !stringsIn(params).some(readsRequests);
}

function stringsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(stringsIn) : [];
}

/** The instances that a reference may mean, and no others: what only records elsewhere may be missing here. */
function instancesNamed(mesh: MeshSnapshot, reference: string, namespace: string): Resource<'instance'>[] {
  const configNamespace = mesh.settings.rootNamespace;
  const meant = instanceMeanings(reference, { namespace, configNamespace });
  return meant.flatMap((of) => mesh.resources('instance').get(resourceKey('instance', of.namespace, of.name)) ?? []);
}

/** The names of headers in expressions: `request.headers["x-user"]`. */
function headersIn(texts: readonly string[], of: string): string[] {
  const pattern = new RegExp(`\\b${of}\\.headers\\s*\\[\\s*["'\`]([^"'\`\\]]{1,256})["'\`]`, 'g');
  const names = texts.flatMap((text) => [...text.matchAll(pattern)].map(([, name = '']) => name.toLowerCase()));
  return [...new Set(names)]
    .filter((name) => /^[a-z0-9!#$%&'*+.^_|~-]+$/.test(name))
    .sort()
    .slice(0, MAX_HEADERS);
}
