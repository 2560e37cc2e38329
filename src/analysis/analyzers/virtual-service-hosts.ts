/** Hosts for which several VirtualServices have the routes of callers inside of the mesh. */
import { canonicalHost, isVisible, mayClaimForOthers, normaliseExportTo, ownCallersOnly } from '../../model/index.ts';
import type { Resource } from '../../resources/index.ts';
import { type AnalyzedMesh, byNamespace, listed, nameOf } from '../mesh/mesh.ts';
import type { Findings } from '../types.ts';

type VirtualService = Resource<'VirtualService'>;

export function* conflictingHosts(mesh: AnalyzedMesh): Findings {
  const byHost = new Map<string, VirtualService[]>();
  for (const document of mesh.documents('VirtualService')) {
    yield undefined;
    const { gateways = [], hosts = [] } = document.content;
    if (gateways.length > 0 && !gateways.includes('mesh')) continue;
    for (const host of new Set(hosts.map((each) => mesh.hostname(each, document.meta.namespace)))) {
      const known = byHost.get(host);
      if (known === undefined) byHost.set(host, [document]);
      else known.push(document);
    }
  }
  /** The namespaces of documents that each document is reported to conflict with. */
  const reported = new Map<VirtualService, Set<string>>();
  for (const [host, documents] of byHost) {
    yield undefined;
    if (documents.length < 2) continue;
    for (const document of documents.slice(0, MAX_COMPARED)) {
      yield undefined;
      const known = reported.get(document) ?? new Set<string>();
      const others = documents
        .slice(0, MAX_COMPARED)
        .filter((other) => other !== document && meet(mesh, host, document, other));
      for (const [namespace, found] of byNamespace(others)) {
        if (known.has(namespace)) continue;
        reported.set(document, known.add(namespace));
        const names = listed(found.map(nameOf));
        const message = `host ${host} has routes in ${names}, too; those of the oldest document apply`;
        yield mesh.finding('IST0109', document, message, [namespace]);
      }
    }
  }
}

/** Documents of one host that are compared with each other. */
const MAX_COMPARED = 100;

/** Whether both documents apply to the host for callers of some namespace. */
function meet(mesh: AnalyzedMesh, host: string, one: VirtualService, other: VirtualService): boolean {
  const [a, b] = [one, other].map(({ meta, content }) => ({
    namespace: meta.namespace,
    to: effectiveExportTo(mesh, host, meta.namespace, content.exportTo),
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

/** Routes for a host of another namespace apply to callers in the document's own namespace only (docs/tenants.md). */
function effectiveExportTo(
  { snapshot }: AnalyzedMesh,
  host: string,
  namespace: string,
  written: readonly string[] | undefined,
): readonly string[] {
  const exportTo = normaliseExportTo(written, snapshot.mesh.defaultVirtualServiceExportTo, namespace);
  return mayClaimForOthers(canonicalHost(host), namespace, snapshot) ? exportTo : ownCallersOnly(exportTo);
}
