/** Services and ServiceEntries: protocols of ports, and definitions that contradict each other. */
import { isVisible, normaliseExportTo, protocolOfPort } from '../../model/index.ts';
import { meshVariables, type Resource } from '../../resources/index.ts';
import { type AnalyzedMesh, listed, nameOf } from '../mesh/mesh.ts';
import type { Finding, Findings } from '../types.ts';

/** Namespaces of the orchestrator itself. */
const SYSTEM: ReadonlySet<string> = new Set(['kube-system', 'kube-public', 'kube-node-lease', 'local-path-storage']);
/** On Services of gateways that the control plane runs. */
const MANAGED = 'gateway.mesh.io/managed';

export function* portProtocols(mesh: AnalyzedMesh): Findings {
  for (const document of mesh.documents('Service')) {
    yield undefined;
    const { namespace, labels } = document.meta;
    const isOwn = SYSTEM.has(namespace) || namespace === mesh.settings.rootNamespace || Object.hasOwn(labels, MANAGED);
    if (!isOwn) yield* unnamedProtocols(mesh, document);
  }
}

function* unnamedProtocols(mesh: AnalyzedMesh, document: Resource<'Service'>): Generator<Finding> {
  const { type, ports = [] } = document.content.spec;
  for (const { name = '', port, protocol, appProtocol } of ports) {
    if (protocol !== 'TCP') continue;
    const which = `port ${port} (${name || 'unnamed'})`;
    const isUnknown = protocolOfPort(port, name, appProtocol) === 'Unsupported';
    if (type === 'ExternalName' && (isUnknown || name === 'tcp')) {
      const message = `${which} of an ExternalName names no protocol but TCP: it matches connections to all addresses`;
      yield mesh.finding('IST0150', document, message);
    } else if (isUnknown) {
      const message = `${which} names no protocol: proxies detect it, which delays servers that speak first`;
      yield mesh.finding('IST0118', document, message);
    }
  }
}

/** ServiceEntries whose connections cannot be told from those to other addresses. */
export function* entryAddresses(mesh: AnalyzedMesh): Findings {
  const proxyMetadata = meshVariables(mesh.snapshot.mesh.defaultConfig.proxyMetadata ?? {});
  // Agents that answer DNS give hosts addresses of their own.
  const allocates = ['MESH_META_DNS_CAPTURE', 'DNS_AGENT'].some((name) => Boolean(proxyMetadata[name]));
  if (allocates) return;
  for (const document of mesh.documents('ServiceEntry')) {
    yield undefined;
    const { addresses = [], ports = [] } = document.content;
    if (addresses.length > 0) continue;
    for (const { protocol = '', number } of ports) {
      if (protocol !== '' && protocol.toUpperCase() !== 'TCP') continue;
      const message = `port ${number} carries TCP, and without addresses its connections cannot be told from others`;
      yield mesh.finding('IST0134', document, message);
      break;
    }
  }
}

interface EntryPort {
  readonly document: Resource<'ServiceEntry'>;
  readonly protocol: string;
}

/** Definitions of one host and port that are compared with each other. */
const MAX_COMPARED = 100;

/** ServiceEntries that give a port of a host different protocols. */
export function* conflictingProtocols(mesh: AnalyzedMesh): Findings {
  const byPort = new Map<string, EntryPort[]>();
  for (const document of mesh.documents('ServiceEntry')) {
    yield undefined;
    const { hosts, ports = [] } = document.content;
    for (const host of hosts) {
      for (const { number, protocol = '' } of ports) {
        const key = `${host} ${number}`;
        const known = byPort.get(key) ?? [];
        if (known.length < MAX_COMPARED) known.push({ document, protocol: protocol.toUpperCase() });
        byPort.set(key, known);
      }
    }
  }
  /** The namespaces of documents that each document is reported to conflict with. */
  const reported = new Map<object, Set<string>>();
  for (const [key, entries] of byPort) {
    yield undefined;
    for (const { document, protocol } of entries) {
      yield undefined;
      const known = reported.get(document) ?? new Set<string>();
      const others = entries.filter((other) => other.protocol !== protocol && meet(mesh, document, other.document));
      for (const [namespace, found] of Map.groupBy(others, (other) => other.document.meta.namespace)) {
        if (known.has(namespace)) continue;
        reported.set(document, known.add(namespace));
        const [host, port] = key.split(' ');
        const protocols = listed(found.map((other) => other.protocol));
        const rest = `${listed(found.map((other) => nameOf(other.document)))} has ${protocols}`;
        const message = `port ${port} of ${host} has protocol ${protocol} here; ${rest}`;
        yield mesh.finding('IST0177', document, message, [namespace]);
      }
    }
  }
}

/** Whether some namespace sees both. */
function meet(mesh: AnalyzedMesh, one: Resource<'ServiceEntry'>, other: Resource<'ServiceEntry'>): boolean {
  const [a, b] = [one, other].map(({ meta: { namespace }, content }) => ({
    namespace,
    to: normaliseExportTo(content.exportTo, mesh.snapshot.mesh.defaultServiceExportTo, namespace),
  }));
  if (a === undefined || b === undefined || [a, b].some(({ to }) => to.includes('~'))) return false;
  const sees = (by: typeof a, from: typeof a) =>
    from.to.some((each) => each === '*' || isVisible(by.to, by.namespace, each === '.' ? from.namespace : each));
  return sees(a, b) || sees(b, a);
}

/** Networks whose endpoints come from a registry that nothing is read from. */
export function* networkRegistries(mesh: AnalyzedMesh): Findings {
  const { settings, networks, endpointClusters } = mesh.snapshot;
  const known = new Set([settings.clusterId, ...endpointClusters]);
  for (const [network, { endpoints = [] }] of Object.entries(networks.networks ?? {})) {
    yield undefined;
    for (const { fromRegistry } of endpoints) {
      if (fromRegistry === undefined || known.has(fromRegistry)) continue;
      const resource = { kind: 'MeshNetworks', namespace: '', name: network };
      const message = `network ${network}: no registry ${fromRegistry} is read`;
      yield mesh.findingOf('IST0126', resource, { source: 'mesh networks' }, message);
    }
  }
}
