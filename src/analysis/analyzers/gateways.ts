/** Gateways: the workloads that serve them, their ports, and servers that two of them have. */
import type { GatewayServer, Resource } from '../../resources/index.ts';
import { type AnalyzedMesh, listed, nameOf, selectorText } from '../mesh/mesh.ts';
import type { Findings, Workload } from '../types.ts';

type Gateway = Resource<'Gateway'>;

/** Workloads of one Gateway of which the Services are looked up. */
const MAX_WORKLOADS = 100;

export function* gatewayWorkloads(mesh: AnalyzedMesh): Findings {
  for (const document of mesh.documents('Gateway')) {
    yield undefined;
    const selector = document.content.selector ?? {};
    const workloads = [];
    for (const workload of mesh.workloads.selected(mesh.gatewayScope(document), selector)) {
      if (workloads.push(workload) >= MAX_WORKLOADS) break;
    }
    if (workloads.length === 0 && Object.keys(selector).length > 0) {
      yield mesh.finding('IST0101', document, `selector: no workload has the labels ${selectorText(selector)}`);
    } else if (workloads.length > 0) yield* unservedPorts(mesh, document, workloads);
  }
}

/** Ports that no Service of the workloads has. Workloads without a Service are reached by their own addresses. */
function* unservedPorts(mesh: AnalyzedMesh, document: Gateway, workloads: readonly Workload[]): Findings {
  const services = workloads.flatMap(({ namespace, labels }) => mesh.servicesOf(namespace, labels));
  if (services.length === 0 && !workloads.some(({ isPod }) => isPod)) return;
  const ports = new Set(
    services.flatMap(({ content }) =>
      (content.spec.ports ?? []).flatMap(({ port, targetPort, protocol }) =>
        protocol === 'TCP' ? [port, ...(typeof targetPort === 'number' ? [targetPort] : [])] : [],
      ),
    ),
  );
  const missing = (document.content.servers ?? []).flatMap(({ port }) =>
    port.number === undefined || ports.has(port.number) ? [] : [port.number],
  );
  for (const port of new Set(missing)) {
    const names = services.length === 0 ? 'they have no Service' : `not by ${listed(services.map(nameOf))}`;
    const message = `port ${port} is not exposed by the Services of its workloads: ${names}`;
    yield mesh.finding('IST0162', document, message, workloads[0]?.namespace);
  }
}

/** Servers of different Gateways with the same port and host for the same workloads. */
export function* conflictingServers(mesh: AnalyzedMesh): Findings {
  const byHost = new Map<string, Gateway[]>();
  for (const document of mesh.documents('Gateway')) {
    yield undefined;
    for (const id of new Set((document.content.servers ?? []).flatMap(serverIds))) {
      byHost.set(id, [...(byHost.get(id) ?? []), document]);
    }
  }
  const found = new Map<Gateway, Map<number, Set<string>>>();
  for (const [id, documents] of byHost) {
    yield undefined;
    if (documents.length < 2) continue;
    const [port = 0] = JSON.parse(id) as readonly number[];
    const compared = documents.slice(0, MAX_WORKLOADS);
    for (const document of compared) {
      const others = compared.filter((other) => other !== document && shareWorkloads(mesh, document, other));
      if (others.length === 0) continue;
      const ports = found.get(document) ?? new Map<number, Set<string>>();
      found.set(document, ports.set(port, new Set([...(ports.get(port) ?? []), ...others.map(nameOf)])));
    }
  }
  for (const [document, ports] of found) {
    for (const [port, others] of ports) {
      const message = `port ${port}: ${listed(others)} has the same hosts for the same workloads; one of them applies`;
      yield mesh.finding('IST0145', document, message);
    }
  }
}

function serverIds({ port, hosts, bind = '' }: GatewayServer): string[] {
  if (port.number === undefined) return [];
  return hosts.map((host) => JSON.stringify([port.number, bind, host.replace(/^\*\//, '')]));
}

/** Whether selectors are equal, or select a workload in common. */
function shareWorkloads(mesh: AnalyzedMesh, one: Gateway, other: Gateway): boolean {
  const [a, b] = [one.content.selector ?? {}, other.content.selector ?? {}];
  if (mesh.settings.scopeGatewayToNamespace && one.meta.namespace !== other.meta.namespace) return false;
  if (selectorText(a) === selectorText(b)) return true;
  if (Object.entries(a).some(([key, value]) => b[key] !== undefined && b[key] !== value)) return false;
  return mesh.workloads.first(mesh.gatewayScope(one), { ...a, ...b }) !== undefined;
}

/** Clients reuse an HTTP/2 connection for all hosts of its certificate, also for those of another Gateway. */
export function* sharedCertificates(mesh: AnalyzedMesh): Findings {
  const byCertificate = new Map<string, Gateway[]>();
  for (const document of mesh.documents('Gateway')) {
    yield undefined;
    const names = (document.content.servers ?? []).flatMap(({ tls }) => {
      if (tls?.credentialName) return [`name ${tls.credentialName}`];
      return tls?.serverCertificate && tls.privateKey ? [`file ${tls.serverCertificate}`] : [];
    });
    for (const name of new Set(names)) byCertificate.set(name, [...(byCertificate.get(name) ?? []), document]);
  }
  for (const [name, documents] of byCertificate) {
    yield undefined;
    if (documents.length < 2) continue;
    const compared = documents.slice(0, MAX_WORKLOADS);
    for (const document of compared) {
      const others = compared.filter((other) => other !== document && selectsAlso(mesh, document, other));
      if (others.length === 0) continue;
      const rest = 'HTTP/2 connections to one get HTTP 404 for hosts of the other';
      const message = `it has the certificate of ${listed(others.map(nameOf))} (${name.slice(5)}); ${rest}`;
      yield mesh.finding('IST0138', document, message);
    }
  }
}

/** Whether all workloads of the other Gateway are workloads of the one. */
function selectsAlso(mesh: AnalyzedMesh, one: Gateway, other: Gateway): boolean {
  if (mesh.settings.scopeGatewayToNamespace && one.meta.namespace !== other.meta.namespace) return false;
  const narrower = other.content.selector ?? {};
  return Object.entries(one.content.selector ?? {}).every(([key, value]) => narrower[key] === value);
}
