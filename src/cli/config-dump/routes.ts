/** The table of routes: one row for each route of each virtual host. */
import { clustersOf, describeDomains, describeMatch, madeBy } from './describe.ts';
import { asObject, type DumpedResource, type JsonObject, listOf, textOf } from './dump.ts';
import type { SectionView } from './section-view.ts';

const hostsOf = ({ message }: DumpedResource): JsonObject[] => listOf(message.virtualHosts).map(asObject);
const domainsOf = (host: JsonObject): string[] => listOf(host.domains).map(textOf);

/** Names of route configurations: `80`, `http.80`, `host:80`, `inbound|80||`, `https.443.name.gateway.namespace`. */
function portOf(name: string): string {
  return /^(?:.*:|https?\.|inbound\|)?(\d+)(?:$|[.|])/.exec(name)?.[1] ?? '';
}

export const routes: SectionView = {
  header: ['NAME', 'VHOST NAME', 'DOMAINS', 'MATCH', 'DESTINATION', 'VIRTUAL SERVICE'],
  matches(resource, { fqdn, port, name }) {
    if (name !== '' && name !== resource.name) return false;
    if (port !== '' && port !== portOf(resource.name)) return false;
    return fqdn === '' || hostsOf(resource).some((host) => domainsOf(host).includes(fqdn));
  },
  rows(resource, { fqdn }) {
    const hosts = hostsOf(resource).filter((host) => fqdn === '' || domainsOf(host).includes(fqdn));
    return hosts.flatMap((host) => {
      const place = [resource.name, textOf(host.name), describeDomains(domainsOf(host))];
      const found = listOf(host.routes).map(asObject);
      if (found.length === 0) return [[...place, '/*', '404', '']];
      return found.map((route) => [...place, describeMatch(asObject(route.match)), actionOf(route), madeBy(route)]);
    });
  },
};

function actionOf({ route, redirect, directResponse, nonForwardingAction }: JsonObject): string {
  if (route !== undefined) return clustersOf(asObject(route));
  if (redirect !== undefined) return 'redirect';
  if (nonForwardingAction !== undefined) return 'none';
  return textOf(asObject(directResponse).status);
}
