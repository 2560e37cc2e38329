/**
 * Which destination rule a scope has for a host. Most namespaces come to the same answers: rules are mostly public, and
 * about services of the namespace that they are in. These namespaces share one finder, by which generation knows that
 * what it made for one of them holds for all.
 */
import { type Memos, WeakMemo } from '../core/memo.ts';
import type { PMap } from '../core/pmap.ts';
import { findDestinationRule, type RuleGroup, type RuleTable } from './destination-rules.ts';
import { isWildcardHost } from './hosts.ts';
import type { MergedDestinationRule, ModelSettings, Scope, Service } from './types.ts';
import { isPublic } from './visibility.ts';

type Finder = Scope['destinationRule'];
type Rules = PMap<RuleGroup>;

/** What a namespace sees of a table of rules. */
interface RuleView {
  /** Rules found; they hold while the table does. */
  readonly found: WeakMemo<Service, MergedDestinationRule | undefined>;
  readonly finders: WeakMemo<PMap<Service>, Finder>;
}

/** Stands for all namespaces that see rules as everybody does; no namespace has this name. */
const ANYBODY = '';

/** What a finder finds by. */
interface Sources {
  readonly memos: Memos;
  readonly rules: RuleTable;
  readonly settings: Pick<ModelSettings, 'rootNamespace'>;
}

/**
 * Generation asks for the same rules over and over, and again for scopes that only their virtual services tell apart:
 * these have the same finder, by which it knows that the answers are the same.
 */
export function ruleFinder(sources: Sources, namespace: string, services: PMap<Service>): Finder {
  const { memos, rules, settings } = sources;
  const { rootNamespace } = settings;
  const from = seesAsAnybody(memos, rules, namespace, services) ? ANYBODY : namespace;
  const { found, finders } = viewOf(memos, rules, `${from} ${rootNamespace}`);
  return finders.get(services, () => (hostname) => {
    const service = services.get(hostname);
    return service && found.get(service, () => findDestinationRule(memos, rules, rootNamespace, from, service));
  });
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
 * Whether a namespace finds what one would that has no rules and is named by none: nobody exports rules to it by name,
 * and its own are public and about its own services, for which everybody looks there first. May say no where it is so
 * after all.
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

/** Maps whose sizes differ by more are not of one scope, one after the other. */
const FEW_SERVICES = 8;

/** Whether the hosts that a namespace's rules are about are its own services, or none. */
function areAboutOwn(memos: Memos, rules: Rules, namespace: string, services: PMap<Service>): boolean {
  // What they were compared with last: mostly the services before the last change.
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

/** All that rules are exported to by name. */
function namedBy(memos: Memos, table: RuleTable): ReadonlySet<string> {
  return memos
    .weak<RuleTable, ReadonlySet<string>>('rules exported to')
    .get(table, () => new Set([...table.values()].flatMap((rules) => contentOf(memos, rules).exportedTo)));
}

interface RulesContent {
  /** The hosts that they are about. */
  readonly hosts: ReadonlySet<string>;
  /** Whether everybody sees all of them, and each is about a single host. */
  readonly open: boolean;
  /** What those name that not everybody sees; `.` is among it. */
  readonly exportedTo: readonly string[];
}

function contentOf(memos: Memos, rules: Rules): RulesContent {
  return memos.weak<Rules, RulesContent>('rules of a namespace').get(rules, () => {
    const hosts = new Set(rules.keys());
    const exports = [...rules.values()].flatMap(({ rules: all }) => all.map(({ exportTo }) => exportTo));
    const hidden = exports.filter((exportTo) => !isPublic(exportTo));
    const open = hidden.length === 0 && ![...hosts].some(isWildcardHost);
    return { hosts, open, exportedTo: [...new Set(hidden.flat())] };
  });
}
