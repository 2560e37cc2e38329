/**
 * The labels of the metrics that Envoy's own access logger counts. They have the names that dashboards for Istio use.
 * Envoy knows its own workload from its node metadata, the peer from its certificate, and the service from metadata of
 * the cluster. It does not know the workload, version or cluster of the peer.
 *
 * No label has a value that callers can choose freely, because each value is a new series. Callers only influence the
 * protocol, status code and response flags, which have few values, and their own verified identity.
 */
import type { Direction } from '../documents.ts';
import { SERVICE_METADATA } from './service-metadata.ts';

type Labels = Readonly<Record<string, string>>;

const UNKNOWN = 'unknown';
/** Node metadata from agents. Without the value the label is empty, which is equal to an absent label in Prometheus. */
export const NODE = 'xds.node.metadata';
const LABELS = `${NODE}.LABELS`;

type Side = 'source' | 'destination';

function ownLabels(side: Side): Labels {
  return {
    [`${side}_workload`]: cel(`${NODE}.WORKLOAD_NAME`),
    [`${side}_workload_namespace`]: cel(`${NODE}.NAMESPACE`),
    [`${side}_app`]: cel(`${LABELS}.app`),
  };
}

/** Additional labels, only for requests: each TCP service has a listener, which repeats all labels. */
function moreOwnLabels(side: Side): Labels {
  return {
    [`${side}_version`]: cel(`${LABELS}.version`),
    [`${side}_canonical_service`]: labelOr('service.istio.io/canonical-name', 'app'),
    [`${side}_canonical_revision`]: labelOr('service.istio.io/canonical-revision', 'version'),
    [`${side}_cluster`]: cel(`${NODE}.CLUSTER_ID`),
  };
}

/** A label of the proxy's workload, or else another one. */
export function labelOr(label: string, other: string): string {
  return cel(`'${label}' in ${LABELS} ? ${LABELS}['${label}'] : ${LABELS}.${other}`);
}

/** @param maxBytes the value is cut after so many; absent: it is as long as it is */
export function cel(expression: string, maxBytes?: number): string {
  return maxBytes === undefined ? `%CEL(${expression})%` : `%CEL(${expression}):${maxBytes}%`;
}

const SERVICE: Labels = {
  destination_service: clusterMetadata(SERVICE_METADATA.host),
  destination_service_name: clusterMetadata(SERVICE_METADATA.name),
  destination_service_namespace: clusterMetadata(SERVICE_METADATA.namespace),
};

function clusterMetadata(key: string): string {
  return `%CLUSTER_METADATA(${SERVICE_METADATA.namespaceOfKeys}:${key})%`;
}

const BY_DIRECTION: Readonly<Record<Direction, Labels>> = {
  CLIENT: {
    reporter: 'source',
    ...ownLabels('source'),
    source_principal: '%UPSTREAM_LOCAL_URI_SAN%',
    destination_workload: UNKNOWN,
    destination_workload_namespace: UNKNOWN,
    destination_principal: '%UPSTREAM_PEER_URI_SAN%',
    ...SERVICE,
    // As in Istio, only servers set it.
    connection_security_policy: UNKNOWN,
  },
  SERVER: {
    reporter: 'destination',
    source_workload: UNKNOWN,
    source_workload_namespace: UNKNOWN,
    source_principal: '%DOWNSTREAM_PEER_URI_SAN%',
    ...ownLabels('destination'),
    destination_principal: '%DOWNSTREAM_LOCAL_URI_SAN%',
    ...SERVICE,
    connection_security_policy: cel("connection.mtls ? 'mutual_tls' : 'none'"),
  },
};

const IS_GRPC = "'content-type' in request.headers && request.headers['content-type'].startsWith('application/grpc')";

const OF_REQUESTS: Labels = {
  request_protocol: cel(`${IS_GRPC} ? 'grpc' : 'http'`),
  response_code: '%RESPONSE_CODE%',
  // Envoy evaluates a status outside of the specification as -1; GRPC_STATUS_NUMBER could be any number.
  grpc_response_status: cel(`${IS_GRPC} ? response.grpc_status : ''`),
  response_flags: '%RESPONSE_FLAGS%',
};

const OF_CONNECTIONS: Labels = { request_protocol: 'tcp', response_flags: '%RESPONSE_FLAGS%' };

/** Label → command operators of Envoy's access logs. */
export function labelsOf(direction: Direction, of: 'requests' | 'connections'): Labels {
  const labels = BY_DIRECTION[direction];
  if (of === 'connections') return { ...labels, ...OF_CONNECTIONS };
  return { ...labels, ...moreOwnLabels(direction === 'CLIENT' ? 'source' : 'destination'), ...OF_REQUESTS };
}

const LABELS_OF_ALL: readonly Labels[] = [
  BY_DIRECTION.CLIENT,
  BY_DIRECTION.SERVER,
  moreOwnLabels('source'),
  moreOwnLabels('destination'),
  OF_REQUESTS,
  OF_CONNECTIONS,
];

/** The labels that metrics have unless a document removes them: the same names in Istio's filter. */
export const STANDARD_LABELS: ReadonlySet<string> = new Set(LABELS_OF_ALL.flatMap((labels) => Object.keys(labels)));
