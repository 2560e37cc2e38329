/**
 * Estimates the cost of a document in addition to reading it: when the change is published, the model derives services
 * and endpoints from it. Its namespace is charged with that time as well.
 */
import type { ParsedResource } from '../../resources/index.ts';

/**
 * The approximate time that the model needs, ms: for a host, and for each copy of a port, an address or an endpoint.
 */
const PER_HOST = 0.2;
const PER_COPY = 0.01;

/** Milliseconds. Only ServiceEntries cost much more to index than to read: each host is a service. */
export function indexingTime(parsed: ParsedResource): number {
  if (!('resource' in parsed) || parsed.resource.kind !== 'ServiceEntry') return 0;
  const { hosts, ports = [], addresses = [], endpoints = [] } = parsed.resource.content;
  return hosts.length * (PER_HOST + PER_COPY * (addresses.length + ports.length * (1 + endpoints.length)));
}
