/**
 * Addresses of connections without a virtual IP: those of headless Services, per port, and those that only Endpoints or
 * EndpointSlices name. A ServiceEntry of another namespace must not have listeners or filter chains there.
 */
import type { AnyResource, Resource, ResourceKey } from '../resources/index.ts';
import type { Groups } from './groups.ts';
import { addressRange, sortableAddress } from './networks.ts';
import { lowerBound } from './order.ts';
import { protocolOfPort } from './protocol.ts';
import type { ExcludedRange, ModelSettings, Service } from './types.ts';

/** `port/address` (in the form of {@link sortableAddress}) → the documents of headless Services there. */
export type HeadlessAddresses = Groups;

/** The read of a service that looked up headless addresses in a range. */
export const RANGE_READ = 'range:';

export type EndpointsDocument = Resource<'Endpoints'> | Resource<'EndpointSlice'>;

/** Calls `use` for the addresses of a document; `namesPod`: the document names the Pod of the address. */
function eachAddress(document: EndpointsDocument, use: (address: string, namesPod: boolean) => void): void {
  if (document.kind === 'EndpointSlice') {
    const { addressType, endpoints = [] } = (document as Resource<'EndpointSlice'>).content;
    if (addressType === 'FQDN') return;
    for (const { addresses, targetRef } of endpoints)
      for (const address of addresses) use(address, targetRef?.kind === 'Pod');
    return;
  }
  for (const { addresses = [], notReadyAddresses = [] } of (document as Resource<'Endpoints'>).content.subsets ?? [])
    for (const list of [addresses, notReadyAddresses])
      for (const { ip, targetRef } of list) use(ip, targetRef?.kind === 'Pod');
}

/**
 * Addresses of a document for which it names no Pod: they belong to its namespace, unless a Service or a Pod has them.
 * May contain duplicates.
 */
export function bareAddresses(document: EndpointsDocument | undefined): readonly string[] {
  if (document === undefined) return [];
  const bare: string[] = [];
  eachAddress(document, (address, namesPod) => {
    if (!namesPod) bare.push(address);
  });
  return bare;
}

/**
 * Ports of a headless Service at which its connections use a listener shared with other services: a filter chain of
 * another service for the same destination would take them. Where pods have listeners of their own, ports of plain TCP
 * do not share one.
 */
function sharedPorts({ content: { spec } }: Resource<'Service'>, settings: ModelSettings): readonly number[] {
  if (spec.clusterIP !== 'None' || spec.type === 'ExternalName') return [];
  const podListeners = settings.headlessPodListeners && !settings.edsForHeadless;
  return (spec.ports ?? []).flatMap((port) => {
    if (port.protocol !== 'TCP') return [];
    const protocol = protocolOfPort(port.port, port.name ?? '', port.appProtocol);
    const shared = !podListeners || protocol === 'Unsupported' || HTTP_PROTOCOLS.has(protocol);
    return shared ? [port.port] : [];
  });
}

const HTTP_PROTOCOLS: ReadonlySet<string> = new Set(['HTTP', 'HTTP2', 'GRPC', 'GRPC-Web']);

/** Keys in {@link HeadlessAddresses} of a document for these Services (one name, in several clusters). */
export function headlessKeys(
  document: EndpointsDocument | undefined,
  services: Iterable<Resource<'Service'>>,
  settings: ModelSettings,
): readonly string[] {
  if (document === undefined) return [];
  const ports = new Set<number>();
  for (const service of services) for (const port of sharedPorts(service, settings)) ports.add(port);
  if (ports.size === 0) return [];
  const keys = new Set<string>();
  eachAddress(document, (address) => {
    const sortable = sortableAddress(address);
    if (sortable !== undefined) for (const port of ports) keys.add(`${port}/${sortable}`);
  });
  return [...keys];
}

/** Address ranges of a resource, in the form of {@link rangeRead}. */
export function claimedRanges(resource: AnyResource | undefined): readonly string[] {
  if (resource?.kind !== 'ServiceEntry') return [];
  const addresses = (resource as Resource<'ServiceEntry'>).content.addresses ?? [];
  return [...new Set(addresses.flatMap((address) => rangeRead(address) ?? []))];
}

/** The read for a range; undefined for single addresses, whose owner is looked up separately. */
function rangeRead(written: string): string | undefined {
  const range = addressRange(written);
  return range === undefined || range.first === range.last ? undefined : `${RANGE_READ}${range.first}-${range.last}`;
}

/** The ranges (as {@link claimedRanges} writes them) that contain one of these keys of {@link HeadlessAddresses}. */
export function rangesAround(keys: readonly string[], ranges: Iterable<string>): ReadonlySet<string> {
  const addresses = keys.map((key) => key.slice(key.indexOf('/') + 1)).sort();
  const around = new Set<string>();
  for (const range of ranges) {
    const [first = '', last = ''] = range.slice(RANGE_READ.length).split('-');
    const at = lowerBound(addresses.length, (index) => (addresses[index] ?? '') >= first);
    const address = addresses[at];
    if (address !== undefined && address <= last) around.add(range);
  }
  return around;
}

/**
 * Ports of a ServiceEntry's service at which one of its ranges would take connections to a headless Service of another
 * namespace. Adds the keys that it looks up to `reads`.
 */
export function excludedRanges(
  service: Service,
  headless: HeadlessAddresses,
  reads: Set<string>,
): readonly ExcludedRange[] {
  const excluded: ExcludedRange[] = [];
  for (const written of service.addresses) {
    const read = rangeRead(written);
    const range = read === undefined ? undefined : addressRange(written);
    if (read === undefined || range === undefined) continue;
    reads.add(read);
    if (headless.size === 0) continue;
    for (const { port, protocol } of service.ports) {
      const owner = protocol === 'UDP' ? undefined : ownerIn(headless, port, range, service.namespace);
      if (owner !== undefined) excluded.push({ range: written, port, owner });
    }
  }
  return excluded;
}

function ownerIn(
  headless: HeadlessAddresses,
  port: number,
  { first, last }: { readonly first: string; readonly last: string },
  namespace: string,
): ResourceKey | undefined {
  const sorted = headless.sorted();
  const [from, to] = [`${port}/${first}`, `${port}/${last}`];
  for (let i = lowerBound(sorted.length, (index) => (sorted[index]?.[0] ?? '') >= from); i < sorted.length; i++) {
    const [key, documents] = sorted[i] ?? ['', []];
    if (key > to) return undefined;
    const outside = documents.find((document) => document.split('/')[1] !== namespace);
    if (outside !== undefined) return outside;
  }
  return undefined;
}
