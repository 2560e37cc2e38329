/**
 * Which destination rule a scope has for a host. Most namespaces come to the same answers: rules are mostly public, and about services of
 * the namespace that they are in. These namespaces share one finder, by which generation knows that what it made for one of them holds for all.
 */
import type { PMap } from '../core/pmap.ts';
import { findDestinationRule, type RuleGroup, type RuleTable } from './destination-rules.ts';
import { isWildcardHost } from './hosts.ts';
import type { MergedDestinationRule, Scope, Service } from './types.ts';
import { isPublic } from './visibility.ts';

type Finder = Scope['destinationRule'];
type Rules = PMap<RuleGroup>;

/** What a namespace sees of a table of rules. */
interface RuleView {
  /** Rules found; they hold while the table does. */
  readonly found: WeakMap<Service, MergedDestinationRule | typeof NO_RULE>;
  readonly finders: WeakMap<PMap<Service>, Finder>;
}

const NO_RULE = Symbol('no rule');

/** Stands for all namespaces that see rules as everybody does; no namespace has this name. */
const ANYBODY = '';

/** Table → `namespace root` → view. */
const ruleViews = new WeakMap<RuleTable, Map<string, RuleView>>();

/**
 * Generation asks for the same rules over and over, and again for scopes that only their virtual services tell apart: these have
 * the same finder, by which it knows that the answers are the same.
 */
export function ruleFinder(
  rules: RuleTable,
  rootNamespace: string,
  namespace: string,
  services: PMap<Service>,
): Finder {
  const from = seesAsAnybody(rules, namespace, services) ? ANYBODY : namespace;
  const byViewer = ruleViews.get(rules) ?? new Map<string, RuleView>();
  ruleViews.set(rules, byViewer);
  const viewer = `${from} ${rootNamespace}`;
  const view = byViewer.get(viewer) ?? { found: new WeakMap(), finders: new WeakMap() };
  byViewer.set(viewer, view);
  const { found, finders } = view;
  const known = finders.get(services);
  if (known !== undefined) return known;
  const find: Finder = (hostname) => {
    const service = services.get(hostname);
    if (service === undefined) return undefined;
    let rule = found.get(service);
    if (rule === undefined) {
      rule = findDestinationRule(rules, rootNamespace, from, service) ?? NO_RULE;
      found.set(service, rule);
    }
    return rule === NO_RULE ? undefined : rule;
  };
  finders.set(services, find);
  return find;
}

/**
 * Whether a namespace finds what one would that has no rules and is named by none: nobody exports rules to it by name, and its own are public
 * and about its own services, for which everybody looks there first. May say no where it is so after all.
 */
function seesAsAnybody(table: RuleTable, namespace: string, services: PMap<Service>): boolean {
  if (namedBy(table).has(namespace)) return false;
  const own = table.get(namespace);
  if (own === undefined) return true;
  return contentOf(own).open && areAboutOwn(own, namespace, services);
}

interface Comparison {
  readonly services: PMap<Service>;
  readonly own: boolean;
}

/** What the rules of a namespace were compared with last: mostly the services before the last change. */
const comparisons = new WeakMap<Rules, Comparison>();

/** Maps whose sizes differ by more are not of one scope, one after the other. */
const FEW_SERVICES = 8;

/** Whether the hosts that a namespace's rules are about are its own services, or none. */
function areAboutOwn(rules: Rules, namespace: string, services: PMap<Service>): boolean {
  const last = comparisons.get(rules);
  if (last?.services === services) return last.own;
  const { hosts } = contentOf(rules);
  const follows = last?.own === true && Math.abs(last.services.size - services.size) <= FEW_SERVICES;
  const candidates = follows ? services.changedKeys(last.services).filter((host) => hosts.has(host)) : [...hosts];
  const own = candidates.every((host) => (services.get(host)?.namespace ?? namespace) === namespace);
  comparisons.set(rules, { services, own });
  return own;
}

const namedByTables = new WeakMap<RuleTable, ReadonlySet<string>>();

/** All that rules are exported to by name. */
function namedBy(table: RuleTable): ReadonlySet<string> {
  let named = namedByTables.get(table);
  if (named === undefined) {
    named = new Set([...table.values()].flatMap((rules) => contentOf(rules).exportedTo));
    namedByTables.set(table, named);
  }
  return named;
}

interface RulesContent {
  /** The hosts that they are about. */
  readonly hosts: ReadonlySet<string>;
  /** Whether everybody sees all of them, and each is about a single host. */
  readonly open: boolean;
  /** What those name that not everybody sees; `.` is among it. */
  readonly exportedTo: readonly string[];
}

const contents = new WeakMap<Rules, RulesContent>();

/** Remembered for as long as the rules of the namespace stand. */
function contentOf(rules: Rules): RulesContent {
  let content = contents.get(rules);
  if (content === undefined) {
    const hosts = new Set(rules.keys());
    const exports = [...rules.values()].flatMap(({ rules: all }) => all.map(({ exportTo }) => exportTo));
    const hidden = exports.filter((exportTo) => !isPublic(exportTo));
    const open = hidden.length === 0 && ![...hosts].some(isWildcardHost);
    content = { hosts, open, exportedTo: [...new Set(hidden.flat())] };
    contents.set(rules, content);
  }
  return content;
}
