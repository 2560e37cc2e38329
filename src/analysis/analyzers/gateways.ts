/** Gateways: the workloads that serve them, their ports, and servers that two of them have. */
import type { GatewayServer, Resource } from '../../resources/index.ts';
import { type AnalyzedMesh, byNamespace, listed, nameOf, selectorText } from '../mesh/mesh.ts';
import type { Findings, Workload } from '../types.ts';

type Gateway = Resource<'Gateway'>;

/** Workloads of one Gateway of which the Services are looked up. */
const MAX_WORKLOADS = 100;

/** Gateways with a server or certificate in common that are compared with each other. */
const MAX_COMPARED = 100;

export function* gatewayWorkloads(mesh: AnalyzedMesh): Findings {
  for (const document of mesh.documents('Gateway')) {
    yield undefined;
    const selector = document.content.selector ?? {};
    const workloads = [];
    for (const workload of mesh.workloads.selected(mesh.gatewayScope(document), selector)) {
      if (workloads.push(workload) >= MAX_WORKLOADS) break;
    }
    if (workloads.length === 0 && Object.keys(selector).length > 0) {
      const message = `selector: no workload has the labels ${selectorText(selector)}`;
      // Where the whole mesh is searched, this tells something about every namespace.
      const isMeshWide = mesh.gatewayScope(document) === '';
      yield mesh.finding('IST0101', document, message, isMeshWide ? [mesh.settings.rootNamespace] : []);
    }
    for (const [, own] of Map.groupBy(workloads, ({ namespace }) => namespace))
      yield* unservedPorts(mesh, document, own);
  }
}

/**
 * Ports that no Service of the workloads of one namespace has. Workloads without a Service are reached by their own
 * addresses.
 */
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
  const reveals = workloads.slice(0, 1).map(({ namespace }) => namespace);
  for (const port of new Set(missing)) {
    const names = services.length === 0 ? 'they have no Service' : `not by ${listed(services.map(nameOf))}`;
    const message = `port ${port} is not exposed by the Services of its workloads: ${names}`;
    yield mesh.finding('IST0162', document, message, reveals);
  }
}

/** Servers of different Gateways with the same port and host for the same workloads. */
export function* conflictingServers(mesh: AnalyzedMesh): Findings {
  const byServer = new Map<string, Gateway[]>();
  for (const document of mesh.documents('Gateway')) {
    yield undefined;
    for (const id of new Set((document.content.servers ?? []).flatMap(serverIds))) {
      const known = byServer.get(id);
      if (known === undefined) byServer.set(id, [document]);
      else known.push(document);
    }
  }
  for (const document of mesh.documents('Gateway')) yield* conflictsOf(mesh, document, byServer);
}

/** Gateways that take a port from the same one, whose names are for who sees these namespaces. */
interface Conflict {
  readonly port: number;
  readonly reveals: readonly string[];
  readonly names: Set<string>;
}

function* conflictsOf(
  mesh: AnalyzedMesh,
  document: Gateway,
  byServer: ReadonlyMap<string, readonly Gateway[]>,
): Findings {
  const ports = new Map<Gateway, Set<number>>();
  for (const id of new Set((document.content.servers ?? []).flatMap(serverIds))) {
    yield undefined;
    const [port = 0] = JSON.parse(id) as readonly number[];
    for (const other of (byServer.get(id) ?? []).slice(0, MAX_COMPARED)) {
      if (other !== document) ports.set(other, (ports.get(other) ?? new Set()).add(port));
    }
  }
  const conflicts = new Map<string, Conflict>();
  // Many Gateways have the same selector: the workloads are looked up once for each.
  const known = new Map<string, readonly string[] | undefined>();
  for (const [other, shared] of ports) {
    yield undefined;
    const selection = `${mesh.gatewayScope(other)} ${selectorText(other.content.selector ?? {})}`;
    if (!known.has(selection)) known.set(selection, sharedWorkloads(mesh, document, other));
    const namespaces = known.get(selection);
    if (namespaces === undefined) continue;
    const reveals = [other.meta.namespace, ...namespaces];
    for (const port of shared) {
      const id = JSON.stringify([port, ...reveals]);
      const conflict = conflicts.get(id) ?? { port, reveals, names: new Set() };
      conflict.names.add(nameOf(other));
      conflicts.set(id, conflict);
    }
  }
  for (const { port, reveals, names } of conflicts.values()) {
    const message = `port ${port}: ${listed(names)} has the same hosts for the same workloads; one of them applies`;
    yield mesh.finding('IST0145', document, message, reveals);
  }
}

function serverIds({ port, hosts, bind = '' }: GatewayServer): string[] {
  if (port.number === undefined) return [];
  return hosts.map((host) => JSON.stringify([port.number, bind, host.replace(/^\*\//, '')]));
}

/**
 * Whether selectors are equal, or select a workload in common: the namespace of that workload, none for equal
 * selectors, undefined if they have none in common.
 */
function sharedWorkloads(mesh: AnalyzedMesh, one: Gateway, other: Gateway): readonly string[] | undefined {
  const [a, b] = [one.content.selector ?? {}, other.content.selector ?? {}];
  const scopes = new Set([one, other].map((gateway) => mesh.gatewayScope(gateway)).filter((scope) => scope !== ''));
  if (scopes.size > 1) return undefined;
  if (selectorText(a) === selectorText(b)) return [];
  if (Object.entries(a).some(([key, value]) => b[key] !== undefined && b[key] !== value)) return undefined;
  const [scope = ''] = scopes;
  const both = { ...a, ...b };
  // A workload of its own namespace first: others are not for every viewer of the document.
  const own = scope === '' ? mesh.workloads.first(one.meta.namespace, both) : undefined;
  const found = own ?? mesh.workloads.first(scope, both);
  return found && [found.namespace];
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
    for (const name of new Set(names)) {
      const known = byCertificate.get(name);
      if (known === undefined) byCertificate.set(name, [document]);
      else known.push(document);
    }
  }
  for (const [name, documents] of byCertificate) {
    yield undefined;
    if (documents.length < 2) continue;
    const compared = documents.slice(0, MAX_COMPARED);
    for (const document of compared) {
      yield undefined;
      const others = compared.filter((other) => other !== document && selectsAlso(mesh, document, other));
      const rest = 'HTTP/2 connections to one get HTTP 404 for hosts of the other';
      for (const [namespace, found] of byNamespace(others)) {
        const message = `it has the certificate of ${listed(found.map(nameOf))} (${name.slice(5)}); ${rest}`;
        yield mesh.finding('IST0138', document, message, [namespace]);
      }
    }
  }
}

/** Whether all workloads of the other Gateway are workloads of the one. */
function selectsAlso(mesh: AnalyzedMesh, one: Gateway, other: Gateway): boolean {
  if (mesh.settings.scopeGatewayToNamespace && one.meta.namespace !== other.meta.namespace) return false;
  const narrower = other.content.selector ?? {};
  return Object.entries(one.content.selector ?? {}).every(([key, value]) => narrower[key] === value);
}
