/** How much of the received configuration is for connections with mutual TLS. Read once, when a bench ends. */
import { envoy } from '../../src/protobuf/index.ts';
import type { BodyIndex } from './bodies.ts';
import type { ContentSecurity } from './messages.ts';

const { Cluster } = envoy.config.cluster.v3;
const { ClusterLoadAssignment } = envoy.config.endpoint.v3;

/** Metadata of an endpoint by which Envoy chooses among the transport sockets of its cluster. */
const MATCHED = 'envoy.transport_socket_match';

export function securityOf(bodies: BodyIndex): ContentSecurity {
  const counts = { clusters: 0, secured: 0, endpoints: 0, ready: 0 };
  for (const bytes of bodies.contents('cds')) {
    const { edsClusterConfig, transportSocketMatches } = Cluster.decode(bytes);
    if (edsClusterConfig === null) continue;
    counts.clusters++;
    if (transportSocketMatches.length > 0) counts.secured++;
  }
  for (const bytes of bodies.contents('eds'))
    for (const { lbEndpoints } of ClusterLoadAssignment.decode(bytes).endpoints)
      for (const { metadata } of lbEndpoints) {
        counts.endpoints++;
        if (metadata !== null && Object.hasOwn(metadata.filterMetadata, MATCHED)) counts.ready++;
      }
  return counts;
}
