/**
 * Virtual services with all names resolved, in precedence order, indexed by the namespaces that see them (for the mesh)
 * and by gateway.
 */

import { PMap } from '../../core/pmap.ts';
import type { Slices } from '../../core/slices.ts';
import { keyOf, type ResourceKey } from '../../resources/index.ts';
import { keepIfEqual } from '../common/equal.ts';
import { GroupEdits, type Groups, membersOf } from '../common/groups.ts';
import { fullHostname } from '../common/hosts.ts';
import { isIpAddress } from '../common/networks.ts';
import { compareCreated, compareText } from '../common/order.ts';
import { type ResourceTables, tableOf } from '../common/tables.ts';
import { isPublic, isVisible, normaliseExportTo } from '../common/visibility.ts';
import type { DefinitionContext } from '../services/definitions.ts';
import { mayRouteForOthers } from '../services/ownership.ts';
import type { ConfigKind, NameConflict, ResolvedVirtualService, VirtualService } from '../types/types.ts';
import { type DelegateContext, type DelegateProblem, delegates, followDelegates, isDelegate } from './delegates.ts';
import { gatewayName, MESH_GATEWAY, resolveContent } from './route-names.ts';

export interface VirtualServiceEntry {
  readonly resolved: ResolvedVirtualService;
  /**
   * The part that applies to callers in other namespaces, without hosts that a third namespace owns. The same object if
   * everything applies, undefined if nothing does.
   */
  readonly forOthers: ResolvedVirtualService | undefined;
  readonly exportTo: readonly string[];
  /** The VirtualServices to which it delegates; absent for most. */
  readonly delegates?: readonly ResourceKey[];
  readonly problems?: readonly DelegateProblem[];
}

type ResolvedList = readonly ResolvedVirtualService[];

export interface VirtualServiceTables {
  readonly entries: PMap<VirtualServiceEntry>;
  /**
   * Virtual services for the mesh that every namespace sees, in order of precedence; scopes that see no others share
   * this list.
   */
  readonly publicMesh: ResolvedList;
  /** Namespace → keys of virtual services for the mesh that only some namespaces see, or that it sees differently. */
  readonly privateMesh: Groups;
  /** `namespace/name` of a gateway → keys. */
  readonly byGateway: Groups;
  /** Key of a VirtualService → keys of VirtualServices that delegate to it. */
  readonly roots: Groups;
}

export const NO_VIRTUAL_SERVICES: VirtualServiceTables = {
  entries: PMap.empty(),
  publicMesh: [],
  privateMesh: PMap.empty(),
  byGateway: PMap.empty(),
  roots: PMap.empty(),
};

const MESH_ONLY: readonly string[] = [MESH_GATEWAY];

/** VirtualServices by key, in addition to what definitions read. */
export interface RouteSources extends DefinitionContext {
  readonly configs: ResourceTables<ConfigKind>;
}

/** Undefined for delegates (without hosts), and for VirtualServices that delegate if delegation is disabled. */
export function resolveVirtualService(
  resource: VirtualService,
  context: RouteSources,
): VirtualServiceEntry | undefined {
  const { meta } = resource;
  const { exportTo, ...content } = resource.content;
  const written = content.hosts ?? [];
  const delegating = delegates(resource);
  if (written.length === 0 || (delegating && !context.settings.virtualServiceDelegates)) return undefined;
  const host = (name: string) => fullHostname(name, meta.namespace, context.settings.domain);
  const hosts = written.map(host);
  const gateways =
    content.gateways === undefined || content.gateways.length === 0
      ? MESH_ONLY
      : content.gateways.map((name) => gatewayName(name, meta.namespace));
  const own = resolveContent({ ...content, hosts, gateways: [...gateways] }, meta.namespace, host);
  const delegation = delegating ? followDelegates(resource, own.http ?? [], delegateContext(context)) : undefined;
  const resolved: ResolvedVirtualService = {
    key: keyOf(resource),
    namespace: meta.namespace,
    name: meta.name,
    hosts,
    gateways,
    content: delegation === undefined ? own : { ...own, http: delegation.http },
    created: meta.created,
  };
  const visible = normaliseExportTo(exportTo, context.mesh.defaultVirtualServiceExportTo, meta.namespace);
  return {
    resolved,
    forOthers: partForOthers(resolved, context),
    exportTo: visible,
    ...(delegation && { delegates: delegation.delegates, problems: delegation.problems }),
  };
}

/** Names in a delegate are those of its own namespace. */
function delegateContext(context: RouteSources): DelegateContext {
  return {
    ...context,
    delegate(key) {
      const resource = tableOf(context.configs, 'VirtualService').get(key);
      if (resource === undefined) return undefined;
      const { namespace } = resource.meta;
      const host = (name: string) => fullHostname(name, namespace, context.settings.domain);
      return { resource, http: resolveContent({ http: resource.content.http ?? [] }, namespace, host).http ?? [] };
    },
  };
}

function partForOthers(resolved: ResolvedVirtualService, context: DefinitionContext): VirtualServiceEntry['forOthers'] {
  const { namespace, content } = resolved;
  const hosts = resolved.hosts.filter((host) => mayRouteForOthers(host, namespace, context));
  if (hosts.length === resolved.hosts.length) return resolved;
  if (hosts.length === 0) return undefined;
  // SNI hosts are covered by the hosts.
  const tls = content.tls?.flatMap(({ match = [], ...rule }) => {
    const named = match.flatMap((clause) => {
      const sniHosts = clause.sniHosts.filter((name) => {
        return mayRouteForOthers(fullHostname(name, namespace, context.settings.domain), namespace, context);
      });
      return sniHosts.length === 0 ? [] : [{ ...clause, sniHosts }];
    });
    return named.length === 0 ? [] : [{ ...rule, match: named }];
  });
  return { ...resolved, hosts, content: { ...content, hosts, ...(tls && { tls }) } };
}

/** The part of a virtual service for the mesh that a namespace sees. */
export function seenFrom(
  { resolved, forOthers, exportTo }: VirtualServiceEntry,
  namespace: string,
): ResolvedVirtualService | undefined {
  if (!isVisible(exportTo, resolved.namespace, namespace)) return undefined;
  return resolved.namespace === namespace ? resolved : forOthers;
}

/** Delegates among these that no virtual service delegates to, one conflict each; undefined for the others. */
export function unusedDelegates(
  tables: VirtualServiceTables,
  keys: Iterable<ResourceKey>,
  { configs, settings }: RouteSources,
): ReadonlyMap<ResourceKey, readonly NameConflict[] | undefined> {
  const known = tableOf(configs, 'VirtualService');
  const found = new Map<ResourceKey, readonly NameConflict[] | undefined>();
  for (const key of keys) {
    const resource = known.get(key);
    if (resource !== undefined && !isDelegate(resource)) continue;
    const unused = resource !== undefined && membersOf(tables.roots, key).length === 0;
    const message = `${key}: it has no hosts, and no VirtualService delegates to it`;
    const reported = unused && settings.virtualServiceDelegates;
    found.set(key, reported ? [{ resource: key, message, about: 'delegate' }] : undefined);
  }
  return found;
}

/**
 * The parts of a virtual service that are not in force: hosts that another namespace owns, delegations that cannot be
 * followed.
 */
export function virtualServiceConflicts(entry: VirtualServiceEntry | undefined): readonly NameConflict[] {
  if (entry === undefined) return [];
  const { key, namespace } = entry.resolved;
  const delegations = (entry.problems ?? []).flatMap(({ delegate, message }): NameConflict[] => {
    const own: NameConflict = { resource: key, message, about: 'delegate' };
    const foreign = delegate !== undefined && !delegate.startsWith(`VirtualService/${namespace}/`);
    return foreign ? [own, { ...own, resource: delegate }] : [own];
  });
  return [...hostConflicts(entry), ...delegations];
}

function hostConflicts(entry: VirtualServiceEntry): readonly NameConflict[] {
  if (!isForMesh(entry)) return [];
  const { resolved, forOthers, exportTo } = entry;
  if (!exportTo.some((name) => name !== '.' && name !== '~')) return [];
  const kept = new Set(forOthers?.hosts);
  return resolved.hosts.flatMap((host) => {
    if (kept.has(host)) return [];
    const what = isIpAddress(host) ? 'an address' : 'a name of another namespace';
    const rest = `is ${what}; its routes apply only to callers in ${resolved.namespace}`;
    return [{ resource: resolved.key, message: `${resolved.key}: host ${host} ${rest}` }];
  });
}

/** Host names that a virtual service sends traffic to, each once. */
export function destinationHosts({ content }: ResolvedVirtualService): ReadonlySet<string> {
  const hosts = new Set<string>();
  for (const rule of content.http ?? []) {
    for (const { destination } of rule.route ?? []) hosts.add(destination.host);
    if (rule.mirror !== undefined) hosts.add(rule.mirror.host);
    for (const { destination } of rule.mirrors ?? []) hosts.add(destination.host);
  }
  for (const rule of [...(content.tls ?? []), ...(content.tcp ?? [])]) {
    for (const { destination } of rule.route ?? []) hosts.add(destination.host);
  }
  return hosts;
}

/** Labels `key=value` that matches for the mesh depend on. */
export function sourceLabelsOf({ content }: ResolvedVirtualService): ReadonlySet<string> {
  const labels = new Set<string>();
  for (const rule of [...(content.http ?? []), ...(content.tls ?? []), ...(content.tcp ?? [])]) {
    for (const { sourceLabels, gateways } of rule.match ?? []) {
      if (gateways !== undefined && !gateways.includes(MESH_GATEWAY)) continue;
      for (const [key, value] of Object.entries(sourceLabels ?? {})) labels.add(`${key}=${value}`);
    }
  }
  return labels;
}

export function compareResolved(a: ResolvedVirtualService, b: ResolvedVirtualService): number {
  return compareCreated(a.created, b.created) || compareText(a.namespace, b.namespace) || compareText(a.name, b.name);
}

/** A sorted list with one member replaced, removed or inserted; the same list when nothing differs. */
export function replaceResolved(
  list: ResolvedList,
  before: ResolvedVirtualService | undefined,
  after: ResolvedVirtualService | undefined,
): ResolvedList {
  if (before === after) return list;
  const next = list.slice();
  // Usually a member is replaced at the same index.
  const same = before !== undefined && after !== undefined && compareResolved(before, after) === 0;
  const place = same ? positionOf(next, before) : -1;
  if (same && next[place]?.key === after.key) {
    next[place] = after;
    return next;
  }
  if (before !== undefined) {
    const at = positionOf(next, before);
    if (next[at]?.key === before.key) next.splice(at, 1);
  }
  if (after !== undefined) next.splice(positionOf(next, after), 0, after);
  return next.length === list.length && next.every((item, index) => item === list[index]) ? list : next;
}

interface ResolvedChange {
  readonly before: ResolvedVirtualService | undefined;
  readonly after: ResolvedVirtualService | undefined;
}

/** With this many changes it is cheaper to sort the whole list than to copy it for each. */
const MANY_CHANGES = 8;

/** A sorted list after several changes of different members; the same list when nothing differs. */
function replaceAllResolved(list: ResolvedList, changes: readonly ResolvedChange[]): ResolvedList {
  if (changes.length < MANY_CHANGES) {
    return changes.reduce((next, { before, after }) => replaceResolved(next, before, after), list);
  }
  const gone = new Set(changes.map(({ before }) => before?.key));
  const next = list.filter(({ key }) => !gone.has(key));
  for (const { after } of changes) if (after !== undefined) next.push(after);
  next.sort(compareResolved);
  return next.length === list.length && next.every((item, index) => item === list[index]) ? list : next;
}

/** The first index at which `item` could be inserted. */
function positionOf(list: ResolvedList, item: ResolvedVirtualService): number {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const other = list[middle];
    if (other !== undefined && compareResolved(other, item) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * The virtual services for the mesh that a namespace sees, in precedence order; the shared list when these are the
 * public ones.
 */
export function meshVirtualServices(tables: VirtualServiceTables, namespace: string): ResolvedList {
  const own = membersOf(tables.privateMesh, namespace);
  if (own.length === 0) return tables.publicMesh;
  const apart = new Set(own);
  const others = tables.publicMesh.filter(({ key }) => !apart.has(key));
  const seen = own.flatMap((key) => {
    const entry = tables.entries.get(key);
    return (entry && seenFrom(entry, namespace)) ?? [];
  });
  return [...others, ...seen].sort(compareResolved);
}

/** Virtual services of a gateway `namespace/name` that are visible in the gateway's namespace, in precedence order. */
export function gatewayVirtualServices(tables: VirtualServiceTables, gateway: string): ResolvedList {
  const namespace = gateway.slice(0, gateway.indexOf('/'));
  return membersOf(tables.byGateway, gateway)
    .flatMap((key) => tables.entries.get(key) ?? [])
    .filter(({ resolved, exportTo }) => isVisible(exportTo, resolved.namespace, namespace))
    .map(({ resolved }) => resolved)
    .sort(compareResolved);
}

export function isForMesh(entry: VirtualServiceEntry): boolean {
  return entry.resolved.gateways.includes(MESH_GATEWAY);
}

export interface VirtualServiceChange {
  readonly before: VirtualServiceEntry | undefined;
  readonly after: VirtualServiceEntry | undefined;
}

/** The changed virtual services, and those that delegate to them. */
function withRoots(
  tables: VirtualServiceTables,
  changed: ReadonlyMap<ResourceKey, VirtualService | undefined>,
  { configs }: RouteSources,
): ReadonlyMap<ResourceKey, VirtualService | undefined> {
  const roots = [...changed.keys()].flatMap((key) => membersOf(tables.roots, key) as readonly ResourceKey[]);
  const others = roots.filter((root) => !changed.has(root));
  if (others.length === 0) return changed;
  const known = tableOf(configs, 'VirtualService');
  return new Map([...changed, ...others.map((root) => [root, known.get(root)] as const)]);
}

/** Updates the tables; returns the entries that differ. */
export function* updateVirtualServices(
  tables: VirtualServiceTables,
  changed: ReadonlyMap<ResourceKey, VirtualService | undefined>,
  context: RouteSources,
): Slices<{ tables: VirtualServiceTables; changes: ReadonlyMap<ResourceKey, VirtualServiceChange> }> {
  const changes = new Map<ResourceKey, VirtualServiceChange>();
  const privateMesh = new GroupEdits();
  const byGateway = new GroupEdits();
  const roots = new GroupEdits();
  const publicChanges: ResolvedChange[] = [];
  for (const [key, resource] of withRoots(tables, changed, context)) {
    const before = tables.entries.get(key);
    const made = resource === undefined ? undefined : resolveVirtualService(resource, context);
    const after = made === undefined ? undefined : keepEntry(before, made);
    if (before === after) continue;
    changes.set(key, { before, after });
    privateMesh.move(key, privateNamespaces(before), privateNamespaces(after));
    byGateway.move(key, before?.resolved.gateways ?? [], after?.resolved.gateways ?? []);
    roots.move(key, before?.delegates ?? [], after?.delegates ?? []);
    publicChanges.push({ before: publicPart(before), after: publicPart(after) });
    yield;
  }
  if (changes.size === 0) return { tables, changes };
  const entries = tables.entries.with([...changes].map(([key, { after }]) => [key, after]));
  yield;
  return {
    tables: {
      entries,
      publicMesh: replaceAllResolved(tables.publicMesh, publicChanges),
      privateMesh: privateMesh.apply(tables.privateMesh),
      byGateway: byGateway.apply(tables.byGateway),
      roots: roots.apply(tables.roots),
    },
    changes,
  };
}

function keepEntry(before: VirtualServiceEntry | undefined, made: VirtualServiceEntry): VirtualServiceEntry {
  if (before === undefined) return made;
  const resolved = keepIfEqual(before.resolved, made.resolved);
  const forOthers =
    made.forOthers === made.resolved ? resolved : made.forOthers && keepIfEqual(before.forOthers, made.forOthers);
  return keepIfEqual(before, { ...made, resolved, forOthers });
}

function publicPart(entry: VirtualServiceEntry | undefined): ResolvedVirtualService | undefined {
  return entry !== undefined && isForMesh(entry) && isPublic(entry.exportTo) ? entry.forOthers : undefined;
}

function privateNamespaces(entry: VirtualServiceEntry | undefined): readonly string[] {
  if (entry === undefined || !isForMesh(entry)) return [];
  const { resolved, forOthers } = entry;
  if (isPublic(entry.exportTo)) return forOthers === resolved ? [] : [resolved.namespace];
  return entry.exportTo.filter((name) => name !== '~').map((name) => (name === '.' ? entry.resolved.namespace : name));
}
