/** A load assignment as a message, for clusters that contain their endpoints. */

import type { Health } from '../../model/index.ts';
import type { envoy } from '../../protobuf/index.ts';
import { addressOf } from '../common/index.ts';
import type { AssignedLocality, Assignment } from './assign.ts';

/** `envoy.config.core.v3.HealthStatus`: UNKNOWN counts as healthy and takes no bytes. */
export const HEALTH_STATUS = { healthy: 0, unhealthy: 2, draining: 3 } as const satisfies Record<Health, number>;

/** Metadata of an endpoint that accepts mesh mutual TLS, for the transport socket matches of its cluster. */
export const TLS_MODE = { metadata: 'envoy.transport_socket_match', key: 'tlsMode', mutual: 'mesh' } as const;

const MUTUAL_TLS: envoy.config.core.v3.Metadata.Input = {
  filterMetadata: { [TLS_MODE.metadata]: { fields: { [TLS_MODE.key]: { stringValue: TLS_MODE.mutual } } } },
};

export function assignmentMessage(assignment: Assignment): envoy.config.endpoint.v3.ClusterLoadAssignment.Input {
  return { clusterName: assignment.clusterName, endpoints: assignment.localities.map(localityMessage) };
}

function localityMessage({
  locality,
  weight,
  priority,
  endpoints,
}: AssignedLocality): envoy.config.endpoint.v3.LocalityLbEndpoints.Input {
  const [region = '', zone = '', subZone = ''] = locality.split('/');
  return {
    // Present even when empty: without it Envoy ignores the weight.
    locality: { region, zone, subZone },
    lbEndpoints: endpoints.map(({ address, port, weight: ofEndpoint, health, tlsReady }) => ({
      endpoint: { address: addressOf(address, port) },
      ...(health !== 'healthy' && { healthStatus: HEALTH_STATUS[health] }),
      ...(tlsReady && { metadata: MUTUAL_TLS }),
      ...(ofEndpoint !== 1 && { loadBalancingWeight: { value: ofEndpoint } }),
    })),
    loadBalancingWeight: { value: weight },
    ...(priority !== 0 && { priority }),
  };
}
