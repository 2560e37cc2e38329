/** The attributes that requests, connections and their records have. */
import type { ValueType, Vocabulary } from '../../expressions/index.ts';

const OF_WORKLOADS: Readonly<Record<string, ValueType>> = {
  ip: 'IP_ADDRESS',
  labels: 'STRING_MAP',
  name: 'STRING',
  namespace: 'STRING',
  owner: 'STRING',
  principal: 'STRING',
  serviceAccount: 'STRING',
  uid: 'STRING',
  'workload.name': 'STRING',
  'workload.namespace': 'STRING',
  'workload.uid': 'STRING',
};

const STANDARD: Readonly<Record<string, ValueType>> = {
  'origin.ip': 'IP_ADDRESS',
  'source.user': 'STRING',
  'destination.port': 'INT64',
  'destination.service': 'STRING',
  'destination.service.host': 'STRING',
  'destination.service.name': 'STRING',
  'destination.service.namespace': 'STRING',
  'destination.service.uid': 'STRING',
  'request.headers': 'STRING_MAP',
  'request.host': 'STRING',
  'request.id': 'STRING',
  'request.method': 'STRING',
  'request.path': 'STRING',
  'request.query_params': 'STRING_MAP',
  'request.referer': 'STRING',
  'request.scheme': 'STRING',
  'request.size': 'INT64',
  'request.time': 'TIMESTAMP',
  'request.total_size': 'INT64',
  'request.url_path': 'STRING',
  'request.useragent': 'STRING',
  'response.code': 'INT64',
  'response.duration': 'DURATION',
  'response.grpc_message': 'STRING',
  'response.grpc_status': 'STRING',
  'response.headers': 'STRING_MAP',
  'response.size': 'INT64',
  'response.time': 'TIMESTAMP',
  'response.total_size': 'INT64',
  'connection.duration': 'DURATION',
  'connection.event': 'STRING',
  'connection.id': 'STRING',
  'connection.mtls': 'BOOL',
  'connection.received.bytes': 'INT64',
  'connection.received.bytes_total': 'INT64',
  'connection.requested_server_name': 'STRING',
  'connection.sent.bytes': 'INT64',
  'connection.sent.bytes_total': 'INT64',
  'context.protocol': 'STRING',
  'context.reporter.kind': 'STRING',
  'context.reporter.uid': 'STRING',
  'context.time': 'TIMESTAMP',
  'api.protocol': 'STRING',
};

/** The standard attributes by name. Documents of kind attributemanifest can add others. */
export const STANDARD_ATTRIBUTES: Vocabulary = new Map(
  [
    ...Object.entries(STANDARD),
    ...['source', 'destination'].flatMap((side) =>
      Object.entries(OF_WORKLOADS).map(([name, type]): [string, ValueType] => [`${side}.${name}`, type]),
    ),
  ].sort(([one], [other]) => (one < other ? -1 : 1)),
);
