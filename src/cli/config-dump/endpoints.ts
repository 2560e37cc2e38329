/** The table of endpoints: one row for each address of each load assignment. */
import { clusterParts } from './clusters.ts';
import { addressOf } from './describe.ts';
import { asObject, at, type ConfigDump, type DumpedResource, type Json, listOf, textOf } from './dump.ts';
import type { SectionView } from './section-view.ts';

/** By dump: names of clusters by the names of their endpoints, where these differ. */
const clusterNames = new WeakMap<ConfigDump, ReadonlyMap<string, string>>();

/** Over State of the World, endpoints have short names. */
function clusterOf({ name }: DumpedResource, dump: ConfigDump): string {
  let names = clusterNames.get(dump);
  if (names === undefined) {
    const pairs = dump.clusters.map(
      (one) => [textOf(at(one.message, 'edsClusterConfig', 'serviceName')), one.name] as const,
    );
    names = new Map(pairs);
    clusterNames.set(dump, names);
  }
  return names.get(name) ?? name;
}

function localityOf(group: Json): string {
  const { region, zone, subZone } = asObject(asObject(group).locality);
  const parts = [region, zone, subZone].map(textOf);
  return parts.slice(0, parts.findLastIndex((part) => part !== '') + 1).join('/');
}

export const endpoints: SectionView = {
  header: ['ENDPOINT', 'STATUS', 'LOCALITY', 'CLUSTER'],
  matches(resource, { fqdn, name }, dump) {
    const cluster = clusterOf(resource, dump);
    return (name === '' || name === cluster) && (fqdn === '' || fqdn === clusterParts(cluster).host);
  },
  rows(resource, { port }, dump) {
    const cluster = clusterOf(resource, dump);
    return listOf(resource.message.endpoints).flatMap((group) =>
      listOf(asObject(group).lbEndpoints).flatMap((one) => {
        const address = addressOf(at(one, 'endpoint', 'address'));
        if (port !== '' && port !== address.port) return [];
        const shown = address.port === '' ? address.host : `${bracketed(address.host)}:${address.port}`;
        const status = textOf(asObject(one).healthStatus);
        return [[shown, status === '' || status === 'UNKNOWN' ? 'HEALTHY' : status, localityOf(group), cluster]];
      }),
    );
  },
};

const bracketed = (host: string): string => (host.includes(':') ? `[${host}]` : host);
