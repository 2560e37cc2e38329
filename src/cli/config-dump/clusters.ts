/** The table of clusters. */
import { madeBy } from './describe.ts';
import { at, type DumpedResource, textOf } from './dump.ts';
import type { SectionView } from './section-view.ts';

/** The parts of `outbound|80|v1|web.shop.svc.cluster.local`; other names are the host. */
export function clusterParts(name: string) {
  const parts = name.split('|');
  if (parts.length < 4) return { direction: '', port: '', subset: '', host: name };
  const [direction = '', port = '', subset = '', ...host] = parts;
  return { direction, port, subset, host: host.join('|') };
}

function typeOf({ message }: DumpedResource): string {
  return textOf(message.type) || textOf(at(message, 'clusterType', 'name')) || 'STATIC';
}

export const clusters: SectionView = {
  header: ['SERVICE FQDN', 'PORT', 'SUBSET', 'DIRECTION', 'TYPE', 'DESTINATION RULE'],
  matches({ name }, { fqdn, port, name: wanted }) {
    const parts = clusterParts(name);
    return [
      [fqdn, parts.host],
      [port, parts.port],
      [wanted, name],
    ].every(([filter, value]) => filter === '' || filter === value);
  },
  rows(resource) {
    const { direction, port, subset, host } = clusterParts(resource.name);
    const cells = [host, port, subset, direction].map((cell) => cell || '-');
    return [[...cells, typeOf(resource), madeBy(resource.message)]];
  },
};
