/**
 * Finds the destination rule of a scope for a host. For most namespaces the results are the same, because most rules
 * are public and for services of their own namespace. These namespaces share one finder object, which shows generation
 * that results for one of them apply to all.
 */
import { type Memos, WeakMemo } from '../../core/memo.ts';
import type { PMap } from '../../core/pmap.ts';
import { isWildcardHost } from '../common/hosts.ts';
import { isPublic } from '../common/visibility.ts';
import type { MergedDestinationRule, ModelSettings, Scope, Service } from '../types/types.ts';
import { findDestinationRule, type RuleGroup, type RuleTable } from './destination-rules.ts';

type Finder = Scope['destinationRule'];
type Rules = PMap<RuleGroup>;

interface RuleView {
  /** Rules found so far, valid for this table. */
  readonly found: WeakMemo<Service, MergedDestinationRule | undefined>;
  readonly finders: WeakMemo<PMap<Service>, Finder>;
}

/** Replaces the namespace for all namespaces that share a view; not a valid name of a namespace. */
const ANYBODY = '';

interface Sources {
  readonly memos: Memos;
  readonly rules: RuleTable;
  readonly settings: Pick<ModelSettings, 'rootNamespace'>;
}

/**
 * Generation looks up the same rules repeatedly, also for scopes that differ only in their virtual services. Scopes
 * with equal inputs get the same finder object, so generation knows that the results are equal.
 */
export function ruleFinder(sources: Sources, namespace: string, services: PMap<Service>): Finder {
  const { memos, rules, settings } = sources;
  const { rootNamespace } = settings;
  const from = seesAsAnybody(memos, rules, namespace, services) ? ANYBODY : namespace;
  const { found, finders } = viewOf(memos, rules, `${from} ${rootNamespace}`);
  return finders.get(services, () => {
    const finder: Finder = (hostname) => {
      const service = services.get(hostname);
      return service && found.get(service, () => findDestinationRule(memos, rules, rootNamespace, from, service));
    };
    rulesFoundBy(memos).get(finder, () => found);
    return finder;
  });
}

function rulesFoundBy(memos: Memos): WeakMemo<Finder, RuleView['found'] | undefined> {
  return memos.weak('rules found by finders');
}

/** Whether two finders have the same rules for the same service. May return false although they have. */
export function findAlike(memos: Memos, one: Finder, other: Finder): boolean {
  const found = rulesFoundBy(memos).get(one, () => undefined);
  return found !== undefined && found === rulesFoundBy(memos).get(other, () => undefined);
}

/** @param viewer `namespace root` */
function viewOf(memos: Memos, rules: RuleTable, viewer: string): RuleView {
  const views = memos.weak<RuleTable, Map<string, RuleView>>('rule views').get(rules, () => new Map());
  let view = views.get(viewer);
  if (view === undefined) {
    view = { found: new WeakMemo(memos.enabled), finders: new WeakMemo(memos.enabled) };
    views.set(viewer, view);
  }
  return view;
}

/**
 * Whether a namespace finds the same rules as one without rules: no rules are exported to it by name, and its own are
 * public and apply only to its own services, for which every namespace reads the rules of the service's namespace
 * first. May return false although the rules are the same.
 */
function seesAsAnybody(memos: Memos, table: RuleTable, namespace: string, services: PMap<Service>): boolean {
  if (namedBy(memos, table).has(namespace)) return false;
  const own = table.get(namespace);
  if (own === undefined) return true;
  return contentOf(memos, own).open && areAboutOwn(memos, own, namespace, services);
}

interface Comparison {
  readonly services: PMap<Service>;
  readonly own: boolean;
}

/** Maps whose sizes differ by more than this are not versions of the same scope's services. */
const FEW_SERVICES = 8;

/** Whether all rules of a namespace are for its own services. */
function areAboutOwn(memos: Memos, rules: Rules, namespace: string, services: PMap<Service>): boolean {
  // The last comparison, usually with the services before the last change.
  const compared = memos.weak<Rules, { last?: Comparison }>('rules compared').get(rules, () => ({}));
  const { last } = compared;
  if (last?.services === services) return last.own;
  const { hosts } = contentOf(memos, rules);
  const follows = last?.own === true && Math.abs(last.services.size - services.size) <= FEW_SERVICES;
  const candidates = follows ? services.changedKeys(last.services).filter((host) => hosts.has(host)) : [...hosts];
  const own = candidates.every((host) => (services.get(host)?.namespace ?? namespace) === namespace);
  compared.last = { services, own };
  return own;
}

/** Namespaces that rules are exported to by name. */
function namedBy(memos: Memos, table: RuleTable): ReadonlySet<string> {
  return memos
    .weak<RuleTable, ReadonlySet<string>>('rules exported to')
    .get(table, () => new Set([...table.values()].flatMap((rules) => contentOf(memos, rules).exportedTo)));
}

interface RulesContent {
  readonly hosts: ReadonlySet<string>;
  /** Whether all rules are public and for all proxies, each for an exact host. */
  readonly open: boolean;
  /** The `exportTo` entries of rules that are not public, including `.`. */
  readonly exportedTo: readonly string[];
}

function contentOf(memos: Memos, rules: Rules): RulesContent {
  return memos.weak<Rules, RulesContent>('rules of a namespace').get(rules, () => {
    const hosts = new Set(rules.keys());
    const exports = [...rules.values()].flatMap(({ rules: all }) => all.map(({ exportTo }) => exportTo));
    const hidden = exports.filter((exportTo) => !isPublic(exportTo));
    const selects = [...rules.values()].some(({ selecting }) => selecting.length > 0);
    const open = hidden.length === 0 && !selects && ![...hosts].some(isWildcardHost);
    return { hosts, open, exportedTo: [...new Set(hidden.flat())] };
  });
}
