/** A document with many labels: reading it should take time in proportion to them. */
import { HOSTILE, type Scenario, sized } from './scenario.ts';
import { hostileHead, lines } from './tenant.ts';

const COUNT = 100_000;

export const LABELS: Scenario = {
  name: `${COUNT} labels`,
  about: `a ServiceEntry with ${COUNT} labels, each time before an endpoint changes elsewhere`,
  measured: 'endpoint',
  document: {
    written: 'before each change',
    text: (load, version) =>
      [
        // An anchor, so that the parser of complete YAML reads the document and not the one of plain documents.
        hostileHead('ServiceEntry', '&name labelled').replace('spec:\n', '  labels:\n'),
        lines(sized(COUNT, load), (index) => `    key-${index}: v${version}\n`),
        `spec:\n  hosts: [labelled.${HOSTILE}.mesh.bench]\n  exportTo: ["."]\n  resolution: DNS\n`,
        '  ports: [{number: 8080, name: http, protocol: HTTP}]\n',
      ].join(''),
  },
};
