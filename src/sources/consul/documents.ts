/**
 * The documents of a service: a ServiceEntry for each of its ports, with the instances of that port as endpoints.
 *
 * ServiceEntries, because a service of Consul has a host name outside the mesh's DNS domain, and its instances have
 * ports of their own. Their endpoints are written in them, and are no WorkloadEntries: a selector of another document
 * must not select an instance by labels that its registration chooses freely, and a change concerns one document
 * however many instances the registry has. They are younger than all other documents, so that a host or an address
 * that another document claims is that document's (docs/tenants.md).
 */
import { isIP } from 'node:net';
import { isDnsLabel, isDnsSubdomain } from '../../core/dns-names.ts';
import {
  type AnyResource,
  type DocumentLimits,
  fingerprintOf,
  type ListedEvent,
  parseResource,
  type Resource,
  type ResourceKey,
  type ResourceWarning,
  resourceKey,
} from '../../resources/index.ts';
import { META } from './answers.ts';
import { endpointAddress, labelsOf, numberIn, protocolIn } from './instance-fields.ts';
import type { Instance } from './known-instances.ts';

export const SOURCE = 'consul';

export interface DocumentOptions {
  readonly namespace: string;
  readonly passingOnly: boolean;
  readonly limits?: DocumentLimits;
}

/** Later than any document that somebody wrote. */
const YOUNGEST = '9999-12-31T23:59:59Z';
const MAX_WARNINGS = 16;
const TLS_MODE_LABELS = ['security.istio.io/tlsMode', 'security.mesh.io/tlsMode'];
/** All services of Istio 1.7's registry run with this account. */
const DEFAULT_ACCOUNT = 'default';

/** Whether a service of this name can have a host name of the form `NAME.service.consul`. */
export function isServiceName(name: string): boolean {
  // Some letters beyond ASCII have one of ASCII as their lower case.
  return /^[-0-9A-Za-z]+$/.test(name) && isDnsLabel(name.toLowerCase());
}

/** Host names are in lower case: services whose names differ in case only are one. */
export function hostOf(name: string): string {
  return `${name.toLowerCase()}.service.consul`;
}

export function documentKey(name: string, port: number, namespace: string): ResourceKey {
  return resourceKey('ServiceEntry', namespace, documentName(name, port));
}

function documentName(name: string, port: number): string {
  return `${name.toLowerCase()}-${port}.service.consul`;
}

/** One endpoint as it is written, and whether the registry calls it critical. */
interface Place {
  readonly servicePort: number;
  readonly protocol: string;
  readonly address: string;
  readonly port: number;
  readonly isUnhealthy: boolean;
  readonly isExternal: boolean;
  readonly endpoint: Readonly<Record<string, unknown>>;
}

/** The documents of a service, by key. A document that is refused is a problem of the service only. */
export function serviceDocuments(
  name: string,
  instances: readonly Instance[],
  { namespace, passingOnly, limits }: DocumentOptions,
  eventTime: number,
): ReadonlyMap<ResourceKey, ListedEvent> {
  const warnings: ResourceWarning[] = [];
  const places = instances.flatMap((instance) => placeOf(instance, passingOnly, warnings));
  const documents = new Map<ResourceKey, ListedEvent>();
  const ports = [...Map.groupBy(places, ({ servicePort }) => servicePort)].sort(([a], [b]) => a - b);
  for (const [port, ofPort] of ports) {
    const unique = bestByAddress(ofPort);
    const raw = rawDocument(name, port, unique, namespace, warnings);
    const parsed = parseResource(raw, { source: SOURCE }, () => undefined, limits === undefined ? {} : { limits });
    const key = documentKey(name, port, namespace);
    if ('resource' in parsed) {
      const resource = ofRegistry(parsed.resource, unique);
      const all = [...(resource.warnings ?? []), ...warnings].slice(0, MAX_WARNINGS);
      const warned = all.length === 0 ? resource : { ...resource, warnings: all };
      documents.set(key, { type: 'set', resource: warned, eventTime });
    } else if ('problem' in parsed) documents.set(key, { type: 'invalid', problem: parsed.problem, eventTime });
  }
  return documents;
}

function placeOf(instance: Instance, passingOnly: boolean, warnings: ResourceWarning[]): Place[] {
  const { id, kind, meta, port, status, weights } = instance;
  // Proxies and gateways of Consul's own mesh accept its certificates only. Without a port, nothing can be called.
  if (kind !== '' || port === 0) return [];
  const warn = (what: string, message: string): void => {
    if (warnings.length < MAX_WARNINGS) warnings.push({ field: `instances[${shown(id)}].${what}`, message });
  };
  const address = endpointAddress(instance.address);
  if (address === undefined) {
    warn('Address', `expected an IP address of a host or a host name, got ${shown(instance.address)}; it is not used`);
    return [];
  }
  if (port > 65_535) {
    warn('Port', `expected a port, got ${port}; it is not used`);
    return [];
  }
  const servicePort = numberIn(meta.get(META.servicePort), 65_535) ?? port;
  if (meta.has(META.servicePort) && servicePort !== Number(meta.get(META.servicePort))) {
    warn(`Meta[${META.servicePort}]`, 'expected a port; the port of the instance is used');
  }
  const { protocol, isKnown } = protocolIn(meta.get(META.protocol));
  if (!isKnown) warn(`Meta[${META.protocol}]`, `unknown protocol ${shown(meta.get(META.protocol) ?? '')}; TCP is used`);
  const labels = labelsOf(instance.tags, (tag) => warn('Tags', `${shown(tag)} is no label; it is ignored`));
  const account = accountOf(instance, labels, warn);
  const weight = status === 'warning' ? weights.warning : weights.passing;
  const isUnhealthy = status === 'critical' || (status === 'warning' && passingOnly) || weight === 0;
  const endpoint = {
    address,
    ports: { [portName(protocol, servicePort)]: port },
    ...(labels.size > 0 && { labels: Object.fromEntries(labels) }),
    ...(isLocality(instance.datacenter) && { locality: instance.datacenter }),
    ...(weight > 1 && { weight }),
    ...(account !== undefined && { serviceAccount: account }),
  };
  const isExternal = (meta.get(META.external) ?? '') !== '';
  return [{ servicePort, protocol, address, port, isUnhealthy, isExternal, endpoint }];
}

/**
 * The account of the metadata; else that of Istio 1.7 for an instance whose label says that it accepts mutual TLS.
 */
function accountOf(
  { meta }: Instance,
  labels: ReadonlyMap<string, string>,
  warn: (what: string, message: string) => void,
): string | undefined {
  const written = meta.get(META.serviceAccount) ?? '';
  if (written !== '' && isDnsSubdomain(written)) return written;
  if (written !== '') warn(`Meta[${META.serviceAccount}]`, `expected a service account, got ${shown(written)}`);
  const mode = TLS_MODE_LABELS.map((key) => labels.get(key)).find((value) => value !== undefined);
  return mode === 'istio' || mode === 'mesh' ? DEFAULT_ACCOUNT : undefined;
}

/** Names of datacenters are regions. */
function isLocality(datacenter: string): boolean {
  return /^[-_a-zA-Z0-9]{1,63}$/.test(datacenter);
}

/** Names of ports are unique in a service, which has several documents. */
function portName(protocol: string, port: number): string {
  return `${protocol.toLowerCase()}-${port}`;
}

/** Instances at the same address and port are one endpoint: a healthy one, if there is one. */
function bestByAddress(places: readonly Place[]): readonly Place[] {
  const best = new Map<string, Place>();
  for (const place of places) {
    const at = `${place.address} ${place.port}`;
    const known = best.get(at);
    if (known === undefined || (known.isUnhealthy && !place.isUnhealthy)) best.set(at, place);
  }
  return [...best.values()];
}

function rawDocument(
  name: string,
  port: number,
  places: readonly Place[],
  namespace: string,
  warnings: ResourceWarning[],
): unknown {
  const protocol = mostCommon(places.map((place) => place.protocol));
  if (places.some((place) => place.protocol !== protocol) && warnings.length < MAX_WARNINGS) {
    const message = `the instances of port ${port} have different protocols; ${protocol} is used`;
    warnings.push({ field: `instances.Meta[${META.protocol}]`, message });
  }
  const endpoints = places.map((place) => ({ ...place.endpoint, ports: { [portName(protocol, port)]: place.port } }));
  return {
    apiVersion: 'networking.mesh.io/v1alpha3',
    kind: 'ServiceEntry',
    metadata: { name: documentName(name, port), namespace, creationTimestamp: YOUNGEST },
    spec: {
      hosts: [hostOf(name)],
      ports: [{ number: port, name: portName(protocol, port), protocol }],
      location: places.some(({ isExternal }) => isExternal) ? 'MESH_EXTERNAL' : 'MESH_INTERNAL',
      resolution: places.every(({ address }) => isIP(address) !== 0) ? 'STATIC' : 'DNS',
      endpoints,
    },
  };
}

/** The first in the order of the alphabet, if several are as common. */
function mostCommon(values: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  const sorted = [...counts].sort(([a, many], [b, others]) => others - many || (a < b ? -1 : 1));
  return sorted[0]?.[0] ?? 'TCP';
}

/** The resource with what a document cannot say: the health of its endpoints, which have the order of `places`. */
function ofRegistry(resource: AnyResource, places: readonly Place[]): AnyResource {
  if (resource.kind !== 'ServiceEntry') return resource;
  const entry = resource as Resource<'ServiceEntry'>;
  const unhealthyEndpoints = places.flatMap(({ isUnhealthy }, index) => (isUnhealthy ? [index] : []));
  const meta = {
    ...entry.meta,
    ofMachines: true as const,
    ...(unhealthyEndpoints.length > 0 && { unhealthyEndpoints }),
  };
  return { ...entry, meta, fingerprint: fingerprintOf(entry.kind, meta, entry.content) };
}

/** A value of the registry, in a message. */
export function shown(value: string): string {
  return JSON.stringify(value.length > 80 ? `${value.slice(0, 80)}…` : value);
}
