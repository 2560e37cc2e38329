/**
 * What the policy component has to decide and record, by the namespace of the rules: proxies ask it only where a rule
 * can match their traffic. Where a rule's instances are not known, it is expected to decide.
 */
import { matchesConnections, readsRequests } from '../../expressions/index.ts';
import type { MeshSnapshot } from '../../model/index.ts';
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

type Rules = ReturnType<typeof rulesOf>;

function rulesOf(mesh: MeshSnapshot) {
  return mesh.resources('rule');
}

/** By namespace of the rules; computed once for the documents of a snapshot. */
export function policyTrafficOf(mesh: MeshSnapshot): ReadonlyMap<string, PolicyTraffic> {
  const rules = rulesOf(mesh);
  const instances = mesh.resources('instance');
  const memo = mesh.memos.pairs<Rules, typeof instances, ReadonlyMap<string, PolicyTraffic>>('policy traffic');
  return memo.get(rules, instances, () => {
    const byNamespace = Map.groupBy(rules.values(), ({ meta }) => meta.namespace);
    return new Map([...byNamespace].map(([namespace, list]) => [namespace, trafficOf(mesh, list)]));
  });
}

/** Namespaces whose rules need something else than before. */
export function changedPolicyTraffic(previous: MeshSnapshot, next: MeshSnapshot): string[] {
  const [before, after] = [policyTrafficOf(previous), policyTrafficOf(next)];
  const namespaces = new Set([...before.keys(), ...after.keys()]);
  return [...namespaces].filter((each) => JSON.stringify(before.get(each)) !== JSON.stringify(after.get(each)));
}

/** Namespaces with rules. */
export function policyNamespaces(mesh: MeshSnapshot): Iterable<string> {
  return policyTrafficOf(mesh).keys();
}

/** Whether a document is one that decides what proxies ask. */
export function isPolicyKey(key: ResourceKey): boolean {
  return key.startsWith('rule/') || key.startsWith('instance/');
}

function trafficOf(mesh: MeshSnapshot, rules: readonly Resource<'rule'>[]): PolicyTraffic {
  let [checks, connections, reports] = [false, false, false];
  const texts: string[] = [];
  for (const { meta, content } of rules) {
    const { actions = [], requestHeaderOperations = [], responseHeaderOperations = [] } = content;
    if (requestHeaderOperations.length + responseHeaderOperations.length > 0) checks = true;
    texts.push(content.match ?? '');
    const isForConnections = matchesConnections(content.match);
    for (const reference of actions.flatMap(({ instances = [] }) => instances)) {
      const found = instancesNamed(mesh, reference, meta.namespace);
      const known = found.map(({ content: { compiledTemplate } }) => compiledTemplate);
      if (known.length === 0 || known.some((name) => name === undefined || !REPORTS.has(name))) checks = true;
      if (isForConnections && (found.length === 0 || found.some(decidesAboutConnections))) connections = true;
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

/** The instances that a reference may mean: `name`, `name.namespace`, `name.instance.namespace`. */
function instancesNamed(mesh: MeshSnapshot, reference: string, namespace: string): Resource<'instance'>[] {
  const parts = reference.split('.');
  const [first = '', last = ''] = [parts[0], parts.at(-1)];
  const meant = [
    [namespace, reference],
    [namespace, first],
    [last, first],
    [last, parts.slice(0, -1).join('.')],
    [last, parts.slice(0, -2).join('.')],
  ] as const;
  const keys = new Set(meant.map(([of, name]) => resourceKey('instance', of, name)));
  return [...keys].flatMap((key) => mesh.resources('instance').get(key) ?? []);
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
