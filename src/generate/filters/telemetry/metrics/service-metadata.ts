/**
 * The service of a cluster, in the cluster's metadata: Istio's filter reads it as Istio's control plane writes it, the
 * access logger of Envoy cannot read lists.
 */
import type { envoy, google } from '../../../../protobuf/index.ts';

/** Where metrics of an Envoy come from: the filter of Istio's proxies, or the access logger of Envoy itself. */
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
  /** That of the orchestrator, or the host. */
  readonly name: string;
  readonly namespace: string;
}

/** The field `metadata` of a cluster; none where nothing reads it. */
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
