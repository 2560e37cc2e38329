/**
 * The only place that maps names of existing meshes to the names that meshd defines.
 *
 * - API groups: `networking.istio.io` and `security.istio.io`, in all their versions, mean
 *   `networking.mesh.io/v1alpha3`, `security.mesh.io/v1beta1` and `telemetry.mesh.io/v1`; `config.istio.io/v1alpha2`
 *   means `config.mesh.io/v1alpha2`.
 * - Keys of labels and annotations: the bare keys `istio`, `istio-injection`, `istio-locality`, and every key whose
 *   domain is `istio.io` or ends in `.istio.io`, have a twin with `mesh` in place of `istio` (`istio: ingressgateway`
 *   is `mesh: ingressgateway`; `security.istio.io/tlsMode` is `security.mesh.io/tlsMode`).
 * - In descriptions (labels and annotations of a resource, an endpoint, a proxy's node) the twin is added and the
 *   original stays. A twin that is already present takes precedence.
 * - In selections (selectors, subset labels, source labels) the twin replaces the key.
 * - One value is a name as well: `security.istio.io/tlsMode: istio` is `security.mesh.io/tlsMode: mesh`.
 * - Variables of the agent in `proxyMetadata`: `ISTIO_META_…` and `ISTIO_METAJSON_…` are `MESH_META_…` and
 *   `MESH_METAJSON_…`.
 * - `ISTIO_MUTUAL` is `MESH_MUTUAL` (in the schemas of the TLS settings).
 *
 * Readers therefore use mesh names only, and either spelling selects either spelling.
 */
import {
  CORE_KINDS,
  type CoreKind,
  INGRESS_KINDS,
  type Kind,
  MESH_KINDS,
  type MeshKind,
  POLICY_KINDS,
  SECURITY_KINDS,
  SERVICE_API_KINDS,
} from './kinds.ts';

const NETWORKING_API = 'networking.mesh.io/v1alpha3';
const SECURITY_API = 'security.mesh.io/v1beta1';
const TELEMETRY_API = 'telemetry.mesh.io/v1';
const POLICY_API = 'config.mesh.io/v1alpha2';
const SERVICE_API_GROUP = 'gateway.networking.k8s.io';

const SECURITY: ReadonlySet<Kind> = new Set(SECURITY_KINDS);
const POLICY: ReadonlySet<Kind> = new Set(POLICY_KINDS);
/** Kinds that belong to no namespace. */
const CLUSTER_SCOPED: ReadonlySet<Kind> = new Set([
  'GatewayClass',
  'IngressClass',
  'JsonWebKeySet',
  'Namespace',
  'Node',
]);
/** Versions in which other meshes have served these kinds. */
const MESH_VERSIONS: readonly string[] = ['v1alpha3', 'v1beta1', 'v1'];
const TELEMETRY_VERSIONS: readonly string[] = ['v1', 'v1alpha1'];
const POLICY_VERSIONS: readonly string[] = ['v1alpha2'];

/** Label with which a workload announces that it accepts mesh mutual TLS. */
const TLS_MODE = 'security.mesh.io/tlsMode';

const INGRESS: ReadonlySet<string> = new Set(INGRESS_KINDS);
const SERVICE_API: ReadonlySet<string> = new Set(SERVICE_API_KINDS);
/** Kinds that the Gateway API also serves as v1beta1, with the same objects. */
const SERVED_AS_BETA: ReadonlySet<Kind> = new Set(['GatewayClass', 'HTTPRoute', 'KubernetesGateway', 'ReferenceGrant']);

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
  if (INGRESS.has(kind)) return ['networking.k8s.io/v1'];
  if (SERVICE_API.has(kind)) {
    return [`${SERVICE_API_GROUP}/v1`, ...(SERVED_AS_BETA.has(kind) ? [`${SERVICE_API_GROUP}/v1beta1`] : [])];
  }
  const { canonical, group, versions } = meshApiOf(kind);
  const all = ['mesh.io', 'istio.io'].flatMap((domain) => versions.map((v) => `${group}.${domain}/${v}`));
  return [canonical, ...all.filter((version) => version !== canonical)];
}

/** The type URL of a kind, as in metrics: of the message that its API group defines. */
export function typeUrlOf(kind: MeshKind | CoreKind): string {
  const [group = '', version = group] = (apiVersionsOf(kind)[0] ?? '').split('/');
  const service = group.slice(0, Math.max(0, group.indexOf('.')));
  const package_ = group.endsWith('.mesh.io') ? `mesh.${service}` : `k8s.io.api.${service === '' ? 'core' : service}`;
  return `type.googleapis.com/${package_}.${version}.${kind}`;
}

function meshApiOf(kind: Kind): { canonical: string; group: string; versions: readonly string[] } {
  if (kind === 'Telemetry') return { canonical: TELEMETRY_API, group: 'telemetry', versions: TELEMETRY_VERSIONS };
  if (POLICY.has(kind)) return { canonical: POLICY_API, group: 'config', versions: POLICY_VERSIONS };
  return SECURITY.has(kind)
    ? { canonical: SECURITY_API, group: 'security', versions: MESH_VERSIONS }
    : { canonical: NETWORKING_API, group: 'networking', versions: MESH_VERSIONS };
}

/** The `kind` that documents of a kind have: two API groups have a `Gateway`. */
export function writtenKind(kind: Kind): string {
  return kind === 'KubernetesGateway' ? 'Gateway' : kind;
}

const KIND_BY_API: ReadonlyMap<string, Kind> = new Map(
  [...MESH_KINDS, ...CORE_KINDS, ...SERVICE_API_KINDS, ...INGRESS_KINDS].flatMap((kind) =>
    apiVersionsOf(kind).map((api) => [`${api}/${writtenKind(kind)}`, kind] as const),
  ),
);

/** The kind for `apiVersion` and `kind` of a document; `undefined` for kinds that meshd does not read. */
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

/** The key that means the same in other meshes: the reverse of {@link meshKey}. */
export function istioKey(key: string): string {
  const [bare] = [...BARE_TWINS].find(([, twin]) => twin === key) ?? [];
  if (bare !== undefined) return bare;
  const slash = key.indexOf('/');
  const domain = key.slice(0, Math.max(0, slash));
  if (domain !== 'mesh.io' && !domain.endsWith('.mesh.io')) return key;
  return `${domain.slice(0, -'mesh.io'.length)}istio.io${key.slice(slash)}`;
}

/** The value of a twin: unchanged, except for `tlsMode`. */
function meshValue(twin: string, value: string): string {
  return twin === TLS_MODE && value === 'istio' ? 'mesh' : value;
}

/** Labels that describe a workload or resource: `istio` keys stay and get their mesh twin, unless it is present. */
export function workloadLabels(labels: Readonly<Record<string, string>>): Record<string, string> {
  const all: Record<string, string> = { ...labels };
  for (const key of Object.keys(labels)) {
    const twin = meshKey(key);
    if (twin !== key && !Object.hasOwn(labels, twin)) all[twin] = meshValue(twin, labels[key] ?? '');
  }
  return all;
}

/** Labels that select: mesh twins replace `istio` keys; a twin that is present takes precedence. */
export function selectorLabels(labels: Readonly<Record<string, string>>): Record<string, string> {
  const all: Record<string, string> = {};
  for (const [key, value] of Object.entries(labels)) {
    const twin = meshKey(key);
    if (twin === key || !Object.hasOwn(labels, twin)) all[twin] = meshValue(twin, value);
  }
  return all;
}

/** The annotation with the class of an Ingress. It preceded `spec.ingressClassName`. */
export const INGRESS_CLASS_ANNOTATION = 'kubernetes.io/ingress.class';

/**
 * Whether an annotation with this key is read: keys of the mesh's domains, of Prometheus scraping, and the class of an
 * Ingress.
 */
export function isReadAnnotation(key: string): boolean {
  if (key === INGRESS_CLASS_ANNOTATION) return true;
  const domain = key.slice(0, Math.max(0, key.indexOf('/')));
  return ['mesh.io', 'istio.io', 'prometheus.io'].some((own) => domain === own || domain.endsWith(`.${own}`));
}

/** Variables of the agent: mesh twins replace those of Istio; a twin that is present takes precedence. */
export function meshVariables<T>(variables: Readonly<Record<string, T>>): Record<string, T> {
  const renamed = Object.entries(variables).map(([name, value]) => [meshVariable(name), value] as const);
  const written = Object.entries(variables).filter(([name]) => meshVariable(name) === name);
  return Object.fromEntries([...renamed, ...written]);
}

/** The mesh name of a variable; the name itself when it has none. */
export function meshVariable(name: string): string {
  return name.replace(/^ISTIO_(META(?:JSON)?_)/, 'MESH_$1');
}
