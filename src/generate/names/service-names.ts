/** The names of one service, as encoded entries of the name table. */
import type { Memos } from '../../core/memo.ts';
import type { Endpoint, Service } from '../../model/index.ts';
import { encode, istio } from '../../protobuf/index.ts';
import { isIpAddress } from '../common/index.ts';
import { addressesOf } from '../plans/index.ts';

type NameInfo = istio.networking.nds.v1.NameTable.NameInfo.Input;

/** An entry of `NameTable.table`. */
export interface EncodedName {
  readonly host: string;
  /** A whole field: a message is the concatenation of its fields. */
  readonly bytes: Uint8Array;
}

export interface HeadlessNames {
  /** Absent while no endpoint can be reached. */
  readonly own: Uint8Array | undefined;
  /** Pods with a host name of their own, as those of a StatefulSet have. */
  readonly pods: readonly EncodedName[];
}

/** A label of a DNS name. Endpoints may be written with any text. */
const DNS_LABEL = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

/**
 * The name of a service with addresses. Absent for one without: only the resolvers of the machine may know addresses of
 * it, as for ServiceEntries of the outside world and for Services of type ExternalName.
 */
export function serviceName(memos: Memos, service: Service): Uint8Array | undefined {
  return memos.weak<Service, Uint8Array | undefined>('names of services').get(service, () => {
    // An address range is no address of the name.
    const ips = addressesOf(memos, service).flatMap((address) => ('bind' in address ? address.bind : []));
    return ips.length === 0 ? undefined : entry(service.hostname, infoOf(service, service.shortName, ips));
  });
}

/** The names of a headless service and its pods: the addresses of its endpoints that are healthy. */
export function headlessNames(service: Service, endpoints: readonly Endpoint[]): HeadlessNames {
  const all = new Set<string>();
  const byPod = new Map<string, Set<string>>();
  for (const { address, health, hostname } of endpoints) {
    if (health !== 'healthy' || !isIpAddress(address)) continue;
    all.add(address);
    if (!DNS_LABEL.test(hostname)) continue;
    const ofPod = byPod.get(hostname) ?? new Set();
    byPod.set(hostname, ofPod.add(address));
  }
  const { shortName } = service;
  const pods = [...byPod].sort(([a], [b]) => (a < b ? -1 : 1));
  return {
    own: all.size === 0 ? undefined : entry(service.hostname, infoOf(service, shortName, [...all].sort())),
    pods: pods.map(([pod, ips]) => {
      const host = `${pod}.${service.hostname}`;
      return { host, bytes: entry(host, infoOf(service, shortName && `${pod}.${shortName}`, [...ips].sort())) };
    }),
  };
}

/** Agents expand the short names of Kubernetes services themselves. */
function infoOf({ registry, namespace }: Service, shortname: string | undefined, ips: readonly string[]): NameInfo {
  if (registry === 'External' || shortname === undefined) return { ips, registry: 'External' };
  return { ips, registry: 'Kubernetes', shortname, namespace };
}

function entry(host: string, info: NameInfo): Uint8Array {
  return encode(istio.networking.nds.v1.NameTable, { table: { [host]: info } });
}
