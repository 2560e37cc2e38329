/**
 * The names of clusters in Envoy's statistics, where the mesh configuration has patterns for them. Placeholders as in
 * Istio 1.7, and those that newer releases added. Without a pattern a cluster has its own name there.
 */
import type { envoy } from '../../protobuf/index.ts';

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
