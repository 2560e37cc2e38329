/**
 * Services of another cluster in the random mesh: the same and others, at addresses that the local cluster's have, too.
 */
import { balanced, endpoints, inCluster, service } from './random-mesh-texts.ts';

const far = (namespace: string, name: string, ip: string, port: number, protocol?: string): string =>
  inCluster('far', service(namespace, name, ip, [port], protocol));

/** Each slot is one resource: absent, or in one of these forms. */
export const CLUSTER_SLOTS: readonly (readonly string[])[] = [
  [
    far('a', 'web', '10.97.0.1', 80),
    far('a', 'web', '10.96.0.2', 80),
    far('a', 'web', '10.97.0.9', 80),
    far('a', 'web', '10.96.0.1', 80),
    far('a', 'web', 'None', 80),
  ],
  [far('b', 'api', '10.97.0.3', 80, 'grpc'), far('b', 'api', '10.97.0.4', 90, 'any')],
  [
    inCluster('far', endpoints('a', 'web', ['10.0.0.1', '10.8.0.1'], [80])),
    inCluster('far', endpoints('a', 'web', ['10.8.0.2'], [80])),
  ],
  // In the other cluster only.
  [
    far('d', 'away', '10.96.0.2', 80, 'tcp'),
    far('d', 'away', '10.96.0.3', 90),
    far('d', 'away', '10.97.0.1', 3306, 'any'),
  ],
  // The gateway of a network: see `NETWORKS`.
  [
    inCluster('far', balanced('b', 'east', '{ip: 192.0.2.97}')),
    inCluster('far', balanced('b', 'east', '{ip: 192.0.2.96}, {hostname: lb.test}')),
    inCluster('far', balanced('b', 'east', '')),
  ],
  // Another cluster, in which no proxy is.
  [
    inCluster('third', service('a', 'web', '10.98.0.1', [80])),
    inCluster('third', service('a', 'web', '10.98.0.2', [80])),
  ],
];
