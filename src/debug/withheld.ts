/** `/debug/withheldz`: resources that Envoy rejected and that the other proxies of a view do not get. */
import type { WithheldOfView } from '../push/index.ts';
import { lazyList } from './proxies.ts';
import type { Viewed } from './viewed.ts';

export function withheldz(mesh: Viewed): object {
  return { withheld: lazyList(mesh.withheld(), shown) };
}

function shown({ type, name, view, versions, acceptedVersion = '', proxy, message, ...more }: WithheldOfView): object {
  const [version = ''] = versions;
  const since = new Date(more.sinceMs);
  return { type, name, view, version, acceptedVersion, proxy, message, since, madeBy: more.documents };
}
