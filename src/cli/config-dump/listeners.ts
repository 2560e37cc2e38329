/** The table of listeners: one row for each filter chain. */
import { addressOf, describeChainMatch, describeDestination } from './describe.ts';
import { asObject, type DumpedResource, type JsonObject, listOf } from './dump.ts';
import type { SectionView } from './section-view.ts';

function addressesOf({ message }: DumpedResource) {
  const more = listOf(message.additionalAddresses).map((one) => asObject(one).address);
  return [message.address, ...more].map(addressOf);
}

function chainsOf({ filterChains, defaultFilterChain }: JsonObject): JsonObject[] {
  return [...listOf(filterChains), ...(defaultFilterChain === undefined ? [] : [defaultFilterChain])].map(asObject);
}

export const listeners: SectionView = {
  header: ['ADDRESSES', 'PORT', 'MATCH', 'DESTINATION'],
  matches(resource, { fqdn, port, name }) {
    if (name !== '' && name !== resource.name) return false;
    if (port !== '' && !addressesOf(resource).some((address) => address.port === port)) return false;
    return fqdn === '' || JSON.stringify(resource.message).includes(JSON.stringify(fqdn).slice(1, -1));
  },
  rows(resource) {
    const addresses = addressesOf(resource);
    const place = [addresses.map(({ host }) => host).join(','), addresses[0]?.port ?? ''];
    const chains = chainsOf(resource.message);
    // A listener without filter chains, such as one for UDP, has listener filters.
    if (chains.length === 0)
      return [[...place, 'ALL', describeDestination(listOf(resource.message.listenerFilters).map(asObject))]];
    return chains.map(({ filterChainMatch, filters }) => [
      ...place,
      describeChainMatch(asObject(filterChainMatch)),
      describeDestination(listOf(filters).map(asObject)),
    ]);
  },
};
