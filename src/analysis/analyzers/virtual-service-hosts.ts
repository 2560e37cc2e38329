/** Hosts for which several VirtualServices have the routes of callers inside of the mesh. */
import { isVisible, normaliseExportTo } from '../../model/index.ts';
import type { Resource } from '../../resources/index.ts';
import { type AnalyzedMesh, listed, nameOf } from '../mesh/mesh.ts';
import type { Findings } from '../types.ts';

type VirtualService = Resource<'VirtualService'>;

export function* conflictingHosts(mesh: AnalyzedMesh): Findings {
  const byHost = new Map<string, VirtualService[]>();
  for (const document of mesh.documents('VirtualService')) {
    yield undefined;
    const { gateways = [], hosts = [] } = document.content;
    if (gateways.length > 0 && !gateways.includes('mesh')) continue;
    for (const host of new Set(hosts.map((each) => mesh.hostname(each, document.meta.namespace)))) {
      byHost.set(host, [...(byHost.get(host) ?? []), document]);
    }
  }
  const reported = new Set<VirtualService>();
  for (const [host, documents] of byHost) {
    yield undefined;
    if (documents.length < 2) continue;
    for (const document of documents.slice(0, MAX_COMPARED)) {
      if (reported.has(document)) continue;
      const others = documents
        .slice(0, MAX_COMPARED)
        .filter((other) => other !== document && meet(mesh, document, other));
      if (others.length === 0) continue;
      reported.add(document);
      const names = listed(others.map(nameOf));
      const message = `host ${host} has routes in ${names}, too; those of the oldest document apply`;
      yield mesh.finding('IST0109', document, message);
    }
  }
}

/** Documents of one host that are compared with each other. */
const MAX_COMPARED = 100;

/** Whether callers of some namespace see both documents. */
function meet(mesh: AnalyzedMesh, one: VirtualService, other: VirtualService): boolean {
  const [a, b] = [one, other].map(({ meta, content }) => ({
    namespace: meta.namespace,
    to: normaliseExportTo(content.exportTo, mesh.snapshot.mesh.defaultVirtualServiceExportTo, meta.namespace),
  }));
  if (a === undefined || b === undefined) return false;
  const seen = ({ to, namespace }: typeof a, by: typeof a): boolean =>
    to.some((each) => {
      if (each === '~') return false;
      // A namespace in which one is visible: the other has to be visible there, too.
      return each === '*' ? !by.to.includes('~') : isVisible(by.to, by.namespace, each === '.' ? namespace : each);
    });
  return seen(a, b) || seen(b, a);
}
