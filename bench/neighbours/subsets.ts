/** A DestinationRule with thousands of subsets: two clusters each, for the tenant's own proxies. */
import { type Scenario, sized } from './scenario.ts';
import { HOSTILE_HOST, hostileHead, lines } from './tenant.ts';

const COUNT = 15_000;

export const SUBSETS: Scenario = {
  name: `${COUNT} subsets`,
  about: `a DestinationRule of ${COUNT} subsets, each time before a new service elsewhere`,
  measured: 'service added',
  document: {
    written: 'before each change',
    text: (load, version) =>
      [
        hostileHead('DestinationRule', 'web'),
        `  host: ${HOSTILE_HOST}\n  exportTo: ["."]\n  subsets:\n`,
        lines(sized(COUNT, load), (index) => `  - {name: v${index}, labels: {version: "${version}"}}\n`),
      ].join(''),
  },
};
