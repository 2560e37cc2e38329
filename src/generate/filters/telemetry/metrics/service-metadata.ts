/**
 * The service of a cluster, in the cluster's metadata: in the form that Istio's filter expects, and for Envoy's access
 * logger, which cannot read lists, as plain strings.
 */
import type { envoy, google } from '../../../../protobuf/index.ts';

/** The source of an Envoy's metrics: the filter of Istio's proxies, or Envoy's access logger for statistics. */
export type MetricsSource = 'filter' | 'logger';

export const SERVICE_METADATA = {
  namespaceOfKeys: 'mesh.service',
  host: 'host',
  name: 'name',
  namespace: 'namespace',
} as const;
const ISTIO = 'istio';

export interface NamedService {
  readonly host: string;
  /** The name of the Kubernetes Service, or the host. */
  readonly name: string;
  readonly namespace: string;
}

/** The field `metadata` of a cluster; absent if it is not read. */
export function serviceMetadata(
  source: MetricsSource | undefined,
  { host, name, namespace }: NamedService,
): Pick<envoy.config.cluster.v3.Cluster.Input, 'metadata'> {
  if (source === undefined) return {};
  const service = { fields: { host: string(host), name: string(name), namespace: string(namespace) } };
  if (source === 'logger') return { metadata: { filterMetadata: { [SERVICE_METADATA.namespaceOfKeys]: service } } };
  const services = { listValue: { values: [{ structValue: service }] } };
  return { metadata: { filterMetadata: { [ISTIO]: { fields: { services } } } } };
}

function string(stringValue: string): google.protobuf.Value.Input {
  return { stringValue };
}
