/** Policies of workloads that apply to none, and namespaces that they name. */
import type { Resource } from '../../resources/index.ts';
import { type AnalyzedMesh, selectorText } from '../mesh/mesh.ts';
import type { Findings } from '../types.ts';

type Policy = Resource<'AuthorizationPolicy'> | Resource<'PeerAuthentication'> | Resource<'RequestAuthentication'>;

const KINDS = ['AuthorizationPolicy', 'PeerAuthentication', 'RequestAuthentication'] as const;
const GATEWAY_NAME = 'gateway.networking.k8s.io/gateway-name';

export function* policyWorkloads(mesh: AnalyzedMesh): Findings {
  for (const kind of KINDS) {
    for (const document of mesh.documents(kind)) {
      yield undefined;
      const { targetRef, targetRefs } = document.content as Partial<Resource<'AuthorizationPolicy'>['content']>;
      if (targetRef === undefined && targetRefs === undefined) yield* withoutWorkloads(mesh, document);
    }
  }
}

function* withoutWorkloads(mesh: AnalyzedMesh, document: Policy): Findings {
  const { namespace } = document.meta;
  const selector = document.content.selector?.matchLabels;
  const isMeshWide = namespace === mesh.settings.rootNamespace;
  if (isMeshWide && selector === undefined) return;
  for (const workload of mesh.workloads.selected(isMeshWide ? '' : namespace, selector ?? {})) {
    yield undefined;
    if (!workload.isOutside) return;
  }
  const which = selector === undefined ? `of namespace ${namespace}` : `with the labels ${selectorText(selector)}`;
  yield mesh.finding('IST0127', document, `it applies to nothing: no workload ${which} has a proxy`);
}

/**
 * Namespaces that no Namespace has; not known where no Namespaces are read. Which namespaces exist is for viewers of
 * the root namespace: others could find the names out by patterns.
 */
export function* namedNamespaces(mesh: AnalyzedMesh): Findings {
  const known = [...mesh.snapshot.resources('Namespace').sorted()].map(([, { meta }]) => meta.name);
  if (known.length === 0) return;
  const names = new Set(known.map((name) => name.toLowerCase()));
  for (const document of mesh.documents('AuthorizationPolicy')) {
    yield undefined;
    const written = (document.content.rules ?? []).flatMap(({ from = [] }) =>
      from.flatMap(({ source: { namespaces = [], notNamespaces = [] } }) => [...namespaces, ...notNamespaces]),
    );
    for (const name of new Set(written)) {
      yield undefined;
      if (names.has(name.toLowerCase()) || isPattern(name, known)) continue;
      const message = `rules name the namespace ${name}, which does not exist`;
      yield mesh.finding('IST0101', document, message, [mesh.settings.rootNamespace]);
    }
  }
}

function isPattern(written: string, known: readonly string[]): boolean {
  if (written.startsWith('*')) return known.some((name) => name.endsWith(written.slice(1)));
  return written.endsWith('*') && known.some((name) => name.startsWith(written.slice(0, -1)));
}

/** Selectors that select proxies of the Gateway API, to which only policies with `targetRefs` are attached. */
export function* gatewaySelectors(mesh: AnalyzedMesh): Findings {
  for (const kind of ['AuthorizationPolicy', 'RequestAuthentication', 'Telemetry'] as const) {
    for (const document of mesh.documents(kind)) {
      yield undefined;
      const { selector, targetRef, targetRefs } = document.content;
      const labels = selector?.matchLabels;
      if (labels === undefined || targetRef !== undefined || targetRefs !== undefined) continue;
      for (const workload of mesh.workloads.selected(document.meta.namespace, labels)) {
        const gateway = workload.labels[GATEWAY_NAME];
        if (gateway === undefined) continue;
        const message = `its selector selects a proxy of Gateway ${gateway}; attach it by targetRefs instead`;
        yield mesh.finding('IST0166', document, message);
        break;
      }
    }
  }
}
