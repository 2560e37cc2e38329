/** A Sidecar with thousands of listeners, each of which has routes to all services. */
import { type Scenario, sized } from './scenario.ts';
import { hostileHead, lines } from './tenant.ts';

const COUNT = 15_000;
const FIRST_PORT = 10_000;

export const EGRESS_LISTENERS: Scenario = {
  name: `${COUNT} egress listeners`,
  about: `a Sidecar of ${COUNT} egress listeners, each time before a new service elsewhere`,
  measured: 'service added',
  document: {
    written: 'before each change',
    text: (load, version) =>
      [
        hostileHead('Sidecar', 'default'),
        '  egress:\n',
        lines(
          sized(COUNT, load),
          (index) =>
            `  - port: {number: ${FIRST_PORT + version + index}, protocol: HTTP, name: http-${index}}\n` +
            '    hosts: ["*/*"]\n',
        ),
      ].join(''),
  },
};
