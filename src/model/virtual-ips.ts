/** The virtual IPs (cluster IPs) of orchestrator Services. */
import type { Resource } from '../resources/index.ts';
import { addressId } from './networks.ts';

/** The cluster IPs of an orchestrator Service, as written. */
export function clusterIps({ content }: Resource<'Service'>): readonly string[] {
  const { clusterIP, clusterIPs, type } = content.spec;
  if (type === 'ExternalName') return [];
  const written = clusterIPs ?? (clusterIP === undefined ? [] : [clusterIP]);
  return written.filter((ip) => ip !== '' && ip !== 'None');
}

/** The same, in the form of `addressId`. */
export function virtualIps(resource: Resource<'Service'> | undefined): readonly string[] {
  return resource === undefined
    ? []
    : [...new Set(clusterIps(resource).flatMap((address) => addressId(address) ?? []))];
}
