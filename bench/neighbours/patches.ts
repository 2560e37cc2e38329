/** An EnvoyFilter with thousands of patches: each has to be matched with every cluster of the namespace's proxies. */
import { type Scenario, sized } from './scenario.ts';
import { hostileHead, lines } from './tenant.ts';

const COUNT = 5000;

function patches(name: string, what: string, match: (index: number) => string): Scenario {
  return {
    name,
    about: `an EnvoyFilter of ${COUNT} CLUSTER MERGE patches ${what}, each time before a new service elsewhere`,
    measured: 'service added',
    document: {
      written: 'before each change',
      text: (load, version) =>
        [
          hostileHead('EnvoyFilter', 'patches'),
          '  configPatches:\n',
          lines(
            sized(COUNT, load),
            (index) =>
              `  - applyTo: CLUSTER\n    match: {context: SIDECAR_OUTBOUND${match(index)}}\n` +
              `    patch: {operation: MERGE, value: {connect_timeout: ${1 + ((index + version) % 100)}s}}\n`,
          ),
        ].join(''),
    },
  };
}

export const PATCHES = [
  patches(`${COUNT} patches of all clusters`, 'of all clusters', () => ''),
  patches(
    `${COUNT} patches of a service each`,
    'of a service each',
    (index) => `, cluster: {service: svc-${index}.elsewhere.mesh.bench, portNumber: 8080}`,
  ),
];
