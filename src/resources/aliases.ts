/**
 * The one place that knows the names under which existing meshes write what meshd calls its own.
 *
 * - API groups: `networking.istio.io` and `security.istio.io`, in all their versions, mean
 *   `networking.mesh.io/v1alpha3` and `security.mesh.io/v1beta1`.
 * - Keys of labels and annotations: the bare keys `istio`, `istio-injection`, `istio-locality`, and every key whose
 *   domain is `istio.io` or ends in `.istio.io`, have a twin with `mesh` in place of `istio` (`istio: ingressgateway`
 *   is `mesh: ingressgateway`; `security.istio.io/tlsMode` is `security.mesh.io/tlsMode`). - On what is *described*
 *   (labels and annotations of a resource, of an endpoint, of a proxy's node) the twin is added and the original stays;
 *   a twin that is already there wins. - In what *selects* (selectors, subset labels, source labels) the key is
 *   replaced by its twin. - One value is a name as well: `security.istio.io/tlsMode: istio` is
 *   `security.mesh.io/tlsMode: mesh`. So readers ask for mesh names only, and either spelling selects either spelling.
 * - `ISTIO_MUTUAL` is `MESH_MUTUAL` (in the schemas of the TLS settings).
 */
import { CORE_KINDS, type Kind, MESH_KINDS, SECURITY_KINDS } from './kinds.ts';

const NETWORKING_API = 'networking.mesh.io/v1alpha3';
const SECURITY_API = 'security.mesh.io/v1beta1';

const SECURITY: ReadonlySet<Kind> = new Set(SECURITY_KINDS);
/** Kinds of the orchestrator that belong to no namespace. */
const CLUSTER_SCOPED: ReadonlySet<Kind> = new Set(['JsonWebKeySet', 'Namespace', 'Node']);
/** Versions in which the field's meshes have served these kinds. */
const MESH_VERSIONS: ReadonlySet<string> = new Set(['v1alpha3', 'v1beta1', 'v1']);

/** Label by which a workload says that it takes mesh mutual TLS. */
const TLS_MODE = 'security.mesh.io/tlsMode';

const BARE_TWINS: ReadonlyMap<string, string> = new Map([
  ['istio', 'mesh'],
  ['istio-injection', 'mesh-injection'],
  ['istio-locality', 'mesh-locality'],
]);

export function isClusterScoped(kind: Kind): boolean {
  return CLUSTER_SCOPED.has(kind);
}

/** API groups/versions under which `kind` is accepted, the canonical one first. */
export function apiVersionsOf(kind: Kind): readonly string[] {
  if (kind === 'EndpointSlice') return ['discovery.k8s.io/v1', 'discovery.k8s.io/v1beta1'];
  if ((CORE_KINDS as readonly string[]).includes(kind)) return ['v1'];
  const [canonical, group] = SECURITY.has(kind) ? [SECURITY_API, 'security'] : [NETWORKING_API, 'networking'];
  const all = ['mesh.io', 'istio.io'].flatMap((domain) => [...MESH_VERSIONS].map((v) => `${group}.${domain}/${v}`));
  return [canonical, ...all.filter((version) => version !== canonical)];
}

const KIND_BY_API: ReadonlyMap<string, Kind> = new Map(
  [...MESH_KINDS, ...CORE_KINDS].flatMap((kind) => apiVersionsOf(kind).map((api) => [`${api}/${kind}`, kind] as const)),
);

/** The kind that `apiVersion` and `kind` of a document mean; `undefined` when meshd does not read it. */
export function kindOf(apiVersion: string, kind: string): Kind | undefined {
  return KIND_BY_API.get(`${apiVersion}/${kind}`);
}

/** The mesh name of a label or annotation key; the key itself when it has none. */
export function meshKey(key: string): string {
  const bare = BARE_TWINS.get(key);
  if (bare !== undefined) return bare;
  const slash = key.indexOf('/');
  if (slash < 0) return key;
  const domain = key.slice(0, slash);
  if (domain !== 'istio.io' && !domain.endsWith('.istio.io')) return key;
  return `${domain.slice(0, -'istio.io'.length)}mesh.io${key.slice(slash)}`;
}

/** A twin's value: the same, except that `tlsMode` names the mesh. */
function meshValue(twin: string, value: string): string {
  return twin === TLS_MODE && value === 'istio' ? 'mesh' : value;
}

/** What describes a workload or resource: `istio` keys stay, and get their mesh twin unless it is given. */
export function workloadLabels(labels: Readonly<Record<string, string>>): Record<string, string> {
  const all: Record<string, string> = { ...labels };
  for (const key of Object.keys(labels)) {
    const twin = meshKey(key);
    if (twin !== key && !Object.hasOwn(labels, twin)) all[twin] = meshValue(twin, labels[key] ?? '');
  }
  return all;
}

/** What selects: `istio` keys are replaced by their mesh twin; a twin that is given as well wins. */
export function selectorLabels(labels: Readonly<Record<string, string>>): Record<string, string> {
  const all: Record<string, string> = {};
  for (const [key, value] of Object.entries(labels)) {
    const twin = meshKey(key);
    if (twin === key || !Object.hasOwn(labels, twin)) all[twin] = meshValue(twin, value);
  }
  return all;
}

/** Whether an annotation is one that something reads: of the mesh's own domains, or of Prometheus scraping. */
export function isReadAnnotation(key: string): boolean {
  const domain = key.slice(0, Math.max(0, key.indexOf('/')));
  return ['mesh.io', 'istio.io', 'prometheus.io'].some((own) => domain === own || domain.endsWith(`.${own}`));
}
