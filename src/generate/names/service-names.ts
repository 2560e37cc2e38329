/** The names of one service. */
import { isDnsLabel } from '../../core/dns-names.ts';
import type { Memos } from '../../core/memo.ts';
import type { Endpoint, Service } from '../../model/index.ts';
import { isIpAddress } from '../common/index.ts';
import { addressesOf } from '../listener-plans/index.ts';
import { endsChunk, placeOfName } from './chunks.ts';

/** A name with its addresses. Immutable, and the same object while nothing of it changes. */
export interface Name {
  /** `*.example.com` for a wildcard. */
  readonly host: string;
  readonly ips: readonly string[];
  /** For a Kubernetes Service or its Pod: agents also resolve short names. */
  readonly short?: { readonly name: string; readonly namespace: string };
  readonly endsChunk: boolean;
  /** See `placeOfName`. */
  readonly place: number;
}

export interface HeadlessNames {
  /** Absent while no endpoint is reachable. */
  readonly own: Name | undefined;
  /** Pods with their own host names, such as those of a StatefulSet. */
  readonly pods: readonly Name[];
}

/**
 * The name of a service with addresses. Absent for a service without addresses, which only the resolvers of the machine
 * may know, such as external services and Services of type ExternalName.
 */
export function serviceName(memos: Memos, service: Service): Name | undefined {
  return memos.weak<Service, Name | undefined>('names of services').get(service, () => {
    // An address range is not an address of the name.
    const ips = addressesOf(memos, service).flatMap((address) => ('bind' in address ? address.bind : []));
    return ips.length === 0 ? undefined : toName(service, '', ips);
  });
}

/** The names of a headless service and its Pods, with the addresses of healthy endpoints. */
export function headlessNames(service: Service, endpoints: readonly Endpoint[]): HeadlessNames {
  const all = new Set<string>();
  const byPod = new Map<string, Set<string>>();
  for (const { address, health, hostname } of endpoints) {
    if (health !== 'healthy' || !isIpAddress(address)) continue;
    all.add(address);
    // The address of an endpoint may be any string.
    if (!isDnsLabel(hostname)) continue;
    const ofPod = byPod.get(hostname) ?? new Set();
    byPod.set(hostname, ofPod.add(address));
  }
  const pods = [...byPod].sort(([a], [b]) => (a < b ? -1 : 1));
  return {
    own: all.size === 0 ? undefined : toName(service, '', [...all].sort()),
    pods: pods.map(([pod, ips]) => toName(service, `${pod}.`, [...ips].sort())),
  };
}

function toName(service: Service, prefix: string, ips: readonly string[]): Name {
  const { hostname, registry, shortName, namespace } = service;
  const host = `${prefix}${hostname}`;
  const place = placeOfName(host);
  const name = { host, ips, endsChunk: endsChunk(place), place };
  if (registry === 'External' || shortName === undefined) return name;
  return { ...name, short: { name: `${prefix}${shortName}`, namespace } };
}
