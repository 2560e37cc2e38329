/** Ten documents each second that cost as much to read, or to index, as the limits for documents permit. */
import { HOSTILE, type Scenario, sized } from './scenario.ts';
import { HOSTILE_HOST, hostileHead, lines } from './tenant.ts';

const FILES = 10;

/** To read: 1,000 expressions whose programs have 1,000 steps. */
const READING: Scenario = {
  name: `${FILES} costly documents to read`,
  about: `${FILES} VirtualServices with 1,000 regular expressions of 1,000 steps, written each second`,
  measured: 'endpoint',
  document: {
    written: 'always',
    files: FILES,
    text: (load, version, file) =>
      [
        hostileHead('VirtualService', `web-${file}`),
        `  hosts:\n    - ${file}.${HOSTILE_HOST}\n  http:\n  - timeout: ${version + 1}s\n    route:\n`,
        `    - destination:\n        host: ${HOSTILE_HOST}\n    match:\n`,
        lines(sized(1000, load), (index) => `    - uri:\n        regex: ${'a'.repeat(985)}${file}x${index}\n`),
      ].join(''),
  },
};

/** To index: each of 1,000 hosts is a service. */
const INDEXING: Scenario = {
  name: `${FILES} costly documents to index`,
  about: `${FILES} ServiceEntries with 1,000 hosts, written each second`,
  measured: 'endpoint',
  document: {
    written: 'always',
    files: FILES,
    text: (load, version, file) =>
      [
        hostileHead('ServiceEntry', `hosts-${file}`),
        '  hosts:\n',
        lines(sized(1000, load), (index) => `    - h${index}.f${file}.${HOSTILE}.mesh.bench\n`),
        `  exportTo:\n    - "."\n  resolution: DNS\n  ports:\n    - number: ${8080 + (version % 100)}\n`,
        '      name: http\n      protocol: HTTP\n',
      ].join(''),
  },
};

export const COSTLY_DOCUMENTS = [READING, INDEXING];
