/** DestinationRules: their hosts and subsets, and TLS that does not verify servers or that the servers do not speak. */
import { isWildcardHost, type Service } from '../../model/index.ts';
import type { ClientTlsSettings, Resource } from '../../resources/index.ts';
import { type AnalyzedMesh, selectorText } from '../mesh/mesh.ts';
import type { Findings } from '../types.ts';

type DestinationRule = Resource<'DestinationRule'>;

export function* ruleHosts(mesh: AnalyzedMesh): Findings {
  for (const document of mesh.documents('DestinationRule')) {
    yield undefined;
    const { namespace } = document.meta;
    const host = mesh.hostname(document.content.host, namespace);
    const service = isWildcardHost(host) ? undefined : mesh.serviceOf(host, namespace);
    if (service !== undefined) yield* emptySubsets(mesh, document, service);
    else if (!isWildcardHost(host) || !mesh.hasServiceBelow(host, namespace)) {
      const which = `no service ${document.content.host} is visible in namespace ${namespace}`;
      const message = `${which}: the rule applies to nothing`;
      yield mesh.finding('IST0174', document, message);
    }
  }
}

/** Endpoints of a service that are looked at. */
const MAX_ENDPOINTS = 10_000;

/** Subsets whose requests fail, because no endpoint has their labels. */
function* emptySubsets(mesh: AnalyzedMesh, document: DestinationRule, service: Service): Findings {
  const { subsets = [] } = document.content;
  if (subsets.length === 0 || service.resolution !== 'eds') return;
  for (const { name, labels = {} } of subsets) {
    yield undefined;
    if (Object.keys(labels).length === 0 || hasWorkload(mesh, service, labels)) continue;
    const message = `subset ${name}: no workload of ${document.content.host} has the labels ${selectorText(labels)}`;
    yield mesh.finding('IST0173', document, message, [service.namespace]);
  }
}

type Labels = Readonly<Record<string, string>>;

/** Whether an endpoint has the labels, or a workload that may become one, such as a Pod that is not ready. */
function hasWorkload(mesh: AnalyzedMesh, service: Service, labels: Labels): boolean {
  const endpoints = (mesh.snapshot.endpoints.get(service.key) ?? []).slice(0, MAX_ENDPOINTS);
  if (endpoints.some((endpoint) => hasLabels(endpoint.labels, labels))) return true;
  // No place has an empty name.
  if (Object.entries(labels).some(([key, value]) => isOfPlace(key) && value === '')) return false;
  const own = Object.fromEntries(Object.entries(labels).filter(([key]) => !isOfPlace(key)));
  return mesh.workloads.first(service.namespace, own) !== undefined;
}

function hasLabels(has: Labels, wanted: Labels): boolean {
  return Object.entries(wanted).every(([key, value]) => has[key] === value);
}

/** Labels that endpoints get from where they are. */
function isOfPlace(key: string): boolean {
  return key.startsWith('topology.') || key === 'kubernetes.io/hostname';
}

/** TLS to servers whose certificates nothing verifies. */
export function* unverifiedServers(mesh: AnalyzedMesh): Findings {
  for (const document of mesh.documents('DestinationRule')) {
    yield undefined;
    const { host, trafficPolicy, workloadSelector } = document.content;
    const isUnverified = ({ mode, caCertificates, credentialName }: ClientTlsSettings): boolean => {
      if (mode !== 'SIMPLE' && mode !== 'MUTUAL') return false;
      return !caCertificates && !(credentialName && workloadSelector !== undefined);
    };
    const rest = `nothing verifies the certificate of ${host}, because caCertificates is not set`;
    const { tls, portLevelSettings = [] } = trafficPolicy ?? {};
    if (tls !== undefined && isUnverified(tls))
      yield mesh.finding('IST0128', document, `tls mode ${tls.mode}: ${rest}`);
    for (const { port, tls: ofPort } of portLevelSettings) {
      if (ofPort === undefined || !isUnverified(ofPort)) continue;
      yield mesh.finding('IST0129', document, `tls mode ${ofPort.mode} of port ${port.number}: ${rest}`);
    }
  }
}

/** TLS settings that the proxies of the servers do not accept. */
export function* tlsConflicts(mesh: AnalyzedMesh): Findings {
  for (const document of mesh.documents('DestinationRule')) {
    yield undefined;
    const { host, trafficPolicy } = document.content;
    const mode = trafficPolicy?.tls?.mode;
    const { namespace } = document.meta;
    const service = mode && mesh.serviceOf(mesh.hostname(host, namespace), namespace);
    if (!service || service.meshExternal) continue;
    yield* conflictOf(mesh, document, service, mode);
  }
}

function* conflictOf(mesh: AnalyzedMesh, document: DestinationRule, service: Service, mode: string): Findings {
  const { host } = document.content;
  const reported = new Set<string>();
  for (const { labels, tlsReady, workload } of (mesh.snapshot.endpoints.get(service.key) ?? []).slice(
    0,
    MAX_ENDPOINTS,
  )) {
    yield undefined;
    // One workload of each namespace, because its viewers may not see those of the others.
    if (workload === undefined || reported.has(workload.namespace)) continue;
    const reveals = [service.namespace, workload.namespace];
    const name = `${workload.namespace}/${workload.name}`;
    const accepted = mesh.snapshot.peerAuthenticationOf(workload.namespace, labels).mode;
    if (mode !== 'MESH_MUTUAL' && accepted === 'STRICT' && tlsReady) {
      const message = `tls mode ${mode}: workload ${name} of ${host} accepts only mutual TLS of the mesh (STRICT)`;
      reported.add(workload.namespace);
      yield mesh.finding('IST0113', document, message, reveals);
      continue;
    }
    if (mode !== 'MESH_MUTUAL' || tlsReady) continue;
    const isOff = accepted === 'DISABLE';
    const why = isOff ? 'does not accept mutual TLS (PeerAuthentication DISABLE)' : 'has no proxy of the mesh';
    const message = `tls mode ${mode}: workload ${name} of ${host} ${why}`;
    reported.add(workload.namespace);
    yield mesh.finding(isOff ? 'IST0113' : 'IST0115', document, message, reveals);
  }
}
