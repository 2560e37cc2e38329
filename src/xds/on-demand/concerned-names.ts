/** Which changes of a view concern which proxies on demand, by the names that these hold. */
import type { XdsType } from '../../core/xds-types.ts';
import type { Bundle, EncodedResource } from '../../push/index.ts';
import { domainsOf } from './aliased-resource.ts';
import { isUnaskable } from './cluster-names.ts';
import { ANY, splitName } from './host-table.ts';

/**
 * The names by which proxies hold what changed, or wait for it: see {@link Demand.held}. Undefined: the change concerns
 * all proxies of the view.
 */
export function concernedNames(type: XdsType, before: Bundle, now: Bundle): readonly string[] | undefined {
  if (type !== 'cds' && type !== 'eds' && type !== 'vhds') return undefined;
  const { changed, removed } = now.diffFrom(before);
  const names = [...removed, ...changed.map(({ name }) => name)];
  if (type === 'eds') return names;
  const resources = [...names.map((name) => before.get(name)), ...changed].filter((each) => each !== undefined);
  if (type === 'cds') return resources.some(isUnaskable) ? undefined : names;
  const domains = resources.flatMap(namesOfDomains);
  // Any host may have it, and have lost it to the other.
  return domains.some((domain) => domain.includes(ANY)) ? undefined : [...names, ...domains];
}

/** The names that a proxy may ask for to get a virtual host. */
function namesOfDomains(host: EncodedResource): readonly string[] {
  const { routes } = splitName(host.name);
  return domainsOf(host).map((domain) => `${routes}/${domain}`);
}
