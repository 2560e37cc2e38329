/** A VirtualService with many regular expressions whose programs are large: (a|b)*c{1,900} has 900 copies of a state. */
import { type Scenario, sized } from './scenario.ts';
import { HOSTILE_HOST, hostileHead, lines } from './tenant.ts';

const PATTERN = '(a|b)*c{1,900}';
const COUNT = 15_000;

export const EXPRESSIONS: Scenario = {
  name: `${COUNT} expressions`,
  about: `a VirtualService with ${COUNT} regular expressions ${PATTERN}, written each second`,
  measured: 'endpoint',
  document: {
    written: 'always',
    text: (load, version) =>
      [
        hostileHead('VirtualService', 'web'),
        `  hosts:\n    - ${HOSTILE_HOST}\n  http:\n  - timeout: ${version + 1}s\n    route:\n`,
        `    - {destination: {host: ${HOSTILE_HOST}}}\n    match:\n`,
        lines(sized(COUNT, load), () => `    - uri: {regex: "${PATTERN}"}\n`),
      ].join(''),
  },
};
