/**
 * The names of clusters in Envoy's statistics, from patterns of the mesh configuration. Placeholders are those of Istio
 * 1.7 and newer releases. Without a pattern, the name of the cluster is used.
 */
import type { envoy } from '../../protobuf/index.ts';
import type { MeshConfig } from '../../resources/index.ts';
import type { ClusterTarget } from '../endpoints/index.ts';
import { type MetricsSource, serviceMetadata } from '../filters/index.ts';

export interface StatNamed {
  readonly host: string;
  readonly namespace: string;
  /** Short name of an orchestrator service; absent for others. */
  readonly shortName: string | undefined;
  readonly port: number;
  readonly portName: string;
  readonly subset: string;
  /** 0: not known. */
  readonly targetPort: number;
}

const PLACEHOLDER = /%([A-Z_]+)%/g;

export function statName(
  pattern: string,
  { host, namespace, shortName, port, portName, subset, targetPort }: StatNamed,
): Pick<envoy.config.cluster.v3.Cluster.Input, 'altStatName'> {
  if (pattern === '') return {};
  const values: Readonly<Record<string, string>> = {
    SERVICE: shortName === undefined ? host : `${shortName}.${namespace}`,
    SERVICE_NAME: shortName ?? host,
    SERVICE_FQDN: host,
    SERVICE_PORT: String(port),
    SERVICE_PORT_NAME: portName,
    SUBSET_NAME: subset,
    TARGET_PORT: String(targetPort),
  };
  return { altStatName: pattern.replace(PLACEHOLDER, (written, name: string) => values[name] ?? written) };
}

/** The names of an outbound cluster and its service in statistics. */
export function outboundLabels(
  mesh: MeshConfig,
  metrics: MetricsSource | undefined,
  { service, port, subset }: Pick<ClusterTarget, 'service' | 'port' | 'subset'>,
): Pick<envoy.config.cluster.v3.Cluster.Input, 'altStatName' | 'metadata'> {
  const { hostname: host, shortName, namespace } = service;
  const named = { host, shortName, namespace, subset, port: port.port, portName: port.name, targetPort: 0 };
  return {
    ...statName(mesh.outboundClusterStatName, named),
    ...serviceMetadata(metrics, { host, name: shortName ?? host, namespace }),
  };
}
