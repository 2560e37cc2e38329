/** Which changes of a view concern which proxies on demand, by the names that these hold. */
import { WeakPairMemo } from '../../core/memo.ts';
import type { XdsType } from '../../core/xds-types.ts';
import { type Bundle, type EncodedResource, isHeldIn } from '../../push/index.ts';
import type { NameSet } from '../protocol/index.ts';
import { domainsOf } from './aliased-resource.ts';
import { isUnaskable } from './cluster-names.ts';
import { ANY, splitName } from './host-table.ts';

/**
 * The names by which proxies hold what changed, or wait for it, and patterns of such names: see {@link Demand.held}.
 * Undefined: the change concerns all proxies of the view.
 */
export function concernedNames(type: XdsType, before: Bundle, now: Bundle): readonly string[] | undefined {
  if (type !== 'cds' && type !== 'eds' && type !== 'vhds') return undefined;
  const { changed, removed } = now.diffFrom(before);
  const names = [...removed, ...changed.map(({ name }) => name)];
  if (type === 'eds') return names;
  const resources = [...names.map((name) => before.get(name)), ...changed].filter((each) => each !== undefined);
  if (type === 'cds') return resources.some(isUnaskable) ? undefined : names;
  const domains = resources.flatMap(namesOfDomains);
  // One with a wildcard is a pattern of names. Wildcards elsewhere are not looked for.
  return domains.some((domain) => domain.lastIndexOf(ANY) > domain.lastIndexOf('/') + 1)
    ? undefined
    : [...names, ...domains];
}

/** The names that a proxy may ask for to get a virtual host. */
function namesOfDomains(host: EncodedResource): readonly string[] {
  const { routes } = splitName(host.name);
  return domainsOf(host).map((domain) => `${routes}/${domain}`);
}

/** With more differences, what a proxy gets is made anew. */
const MAX_DIFFERENCES = 64;

/** For all proxies that had one bundle and get the other. */
const CONCERNED = new WeakPairMemo<Bundle, Bundle, readonly string[] | undefined>(true);

/** Whether a proxy has of a bundle what it had of an earlier one, by the names that it holds. */
export function isUnconcerned(earlier: WeakRef<Bundle>, now: Bundle, held: readonly NameSet[]): boolean {
  const before = earlier.deref();
  if (before === now) return true;
  if (before === undefined || before.viewKey !== now.viewKey) return false;
  const { changed, removed } = now.diffFrom(before);
  if (changed.length + removed.length > MAX_DIFFERENCES) return false;
  const names = CONCERNED.get(before, now, () => concernedNames(now.type, before, now));
  return names !== undefined && !names.some((name) => isHeldIn(held, name));
}
