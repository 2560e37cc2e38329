/** The services, ports and subsets that VirtualServices route to. */
import { isVisible, normaliseExportTo } from '../../model/index.ts';
import type { Destination, Resource, VirtualServiceSpec } from '../../resources/index.ts';
import { type AnalyzedMesh, byNamespace, listed, nameOf } from '../mesh/mesh.ts';
import type { Finding, Findings } from '../types.ts';

type VirtualService = Resource<'VirtualService'>;

interface Place {
  readonly destination: Destination;
  /** Where the document names it. */
  readonly field: string;
}

/** The destinations of a document, those of mirrored requests among them. */
export function* destinationsOf({ http = [], tls = [], tcp = [] }: VirtualServiceSpec): Generator<Place> {
  for (const [index, { route = [], mirror, mirrors = [] }] of http.entries()) {
    const at = `http[${index}]`;
    for (const [each, { destination }] of route.entries()) yield { destination, field: `${at}.route[${each}]` };
    if (mirror !== undefined) yield { destination: mirror, field: `${at}.mirror` };
    for (const [each, { destination }] of mirrors.entries()) yield { destination, field: `${at}.mirrors[${each}]` };
  }
  for (const [protocol, routes] of Object.entries({ tls, tcp })) {
    for (const [index, { route = [] }] of routes.entries()) {
      for (const [each, { destination }] of route.entries())
        yield { destination, field: `${protocol}[${index}].route[${each}]` };
    }
  }
}

export function* destinations(mesh: AnalyzedMesh): Findings {
  for (const document of mesh.documents('VirtualService')) {
    const seen = new Set<string>();
    for (const place of destinationsOf(document.content)) {
      yield undefined;
      const id = JSON.stringify(place.destination);
      // Routes of one document often name the same destination: one finding is enough.
      if (seen.has(id)) continue;
      seen.add(id);
      yield* unknownDestination(mesh, document, place);
      yield* unknownSubset(mesh, document, place);
    }
  }
}

function* unknownDestination(mesh: AnalyzedMesh, document: VirtualService, { destination, field }: Place) {
  const { namespace } = document.meta;
  const { host, port } = destination;
  const service = mesh.serviceOf(mesh.hostname(host, namespace), namespace);
  if (service === undefined) {
    yield mesh.finding('IST0101', document, `${field}: no service ${host} is visible in namespace ${namespace}`);
    return;
  }
  const ports = service.ports.filter(({ protocol }) => protocol !== 'UDP');
  const numbers = ports.map((each) => each.port).join(', ');
  if (port?.number === undefined) {
    if (ports.length < 2) return;
    const message = `${field}: service ${host} has the ports ${numbers}; the destination names none of them`;
    yield mesh.finding('IST0112', document, message);
  } else if (!service.ports.some((each) => each.port === port.number)) {
    const message = `${field}: service ${host} has no port ${port.number}; its ports are ${numbers || 'none'}`;
    yield mesh.finding('IST0101', document, message);
  }
}

function* unknownSubset(mesh: AnalyzedMesh, document: VirtualService, { destination, field }: Place) {
  const { host, subset } = destination;
  if (subset === undefined || subset === '') return;
  const { namespace } = document.meta;
  const known = yield* mesh.once('subsets', () => subsetsOf(mesh));
  const rules = known.get(`${mesh.hostname(host, namespace)} ${subset}`) ?? [];
  // Rules that the namespace does not see have no say: others would learn what private rules contain.
  if (rules.some((rule) => isVisible(rule.exportTo, rule.namespace, namespace))) return;
  const rule = `DestinationRule for host ${host} that namespace ${namespace} sees`;
  const message = `${field}: no ${rule} has a subset ${subset}`;
  yield mesh.finding('IST0101', document, message);
}

interface RuleScope {
  readonly namespace: string;
  /** Normalised. */
  readonly exportTo: readonly string[];
}

/** The scopes of the DestinationRules with a subset, by `host subset`. */
function* subsetsOf(mesh: AnalyzedMesh): Generator<undefined, ReadonlyMap<string, readonly RuleScope[]>> {
  const all = new Map<string, RuleScope[]>();
  const { defaultDestinationRuleExportTo } = mesh.snapshot.mesh;
  for (const [, { meta, content }] of mesh.snapshot.resources('DestinationRule').sorted()) {
    yield undefined;
    const { namespace } = meta;
    const scope = {
      namespace,
      exportTo: normaliseExportTo(content.exportTo, defaultDestinationRuleExportTo, namespace),
    };
    const host = mesh.hostname(content.host, namespace);
    for (const { name } of content.subsets ?? []) {
      const known = all.get(`${host} ${name}`);
      if (known === undefined) all.set(`${host} ${name}`, [scope]);
      else known.push(scope);
    }
  }
  return all;
}

/** Routes of gateways bypass what another VirtualService decides for callers inside of the mesh. */
export function* bypassedSubsets(mesh: AnalyzedMesh): Findings {
  const chosen = yield* mesh.once('subsets by host', () => subsetRoutes(mesh));
  for (const document of mesh.documents('VirtualService')) {
    yield undefined;
    if ((document.content.gateways ?? []).every((gateway) => gateway === 'mesh')) continue;
    yield* bypassedBy(mesh, document, chosen);
  }
}

function* bypassedBy(
  mesh: AnalyzedMesh,
  document: VirtualService,
  chosen: ReadonlyMap<string, readonly VirtualService[]>,
): Generator<Finding> {
  const { namespace } = document.meta;
  const names = new Map<string, ReadonlyMap<string, readonly VirtualService[]>>();
  for (const { route = [] } of document.content.http ?? []) {
    for (const { destination } of route) {
      if (destination.subset) continue;
      const others = chosen.get(mesh.hostname(destination.host, namespace)) ?? [];
      names.set(destination.host, byNamespace(others.filter((other) => other !== document)));
    }
  }
  for (const [host, found] of names) {
    for (const [of, others] of found) {
      const rest = `the subsets of ${listed(others.map(nameOf))} apply only inside of the mesh`;
      yield mesh.finding('IST0140', document, `its routes to ${host} name no subset; ${rest}`, [of]);
    }
  }
}

/** VirtualServices that send requests for their own host to subsets of it, by host. */
function* subsetRoutes(mesh: AnalyzedMesh): Generator<undefined, ReadonlyMap<string, readonly VirtualService[]>> {
  const byHost = new Map<string, VirtualService[]>();
  for (const document of mesh.documents('VirtualService')) {
    yield undefined;
    const { namespace } = document.meta;
    const own = new Set((document.content.hosts ?? []).map((host) => mesh.hostname(host, namespace)));
    const routes = (document.content.http ?? []).flatMap(({ route = [] }) => route);
    const hosts = routes.flatMap(({ destination }) => (destination.subset ? [destination.host] : []));
    for (const host of new Set(hosts.map((each) => mesh.hostname(each, namespace)))) {
      if (!own.has(host)) continue;
      const known = byHost.get(host);
      if (known === undefined) byHost.set(host, [document]);
      else known.push(document);
    }
  }
  return byHost;
}
