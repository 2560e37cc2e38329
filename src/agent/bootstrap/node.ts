/**
 * The node of a proxy, by which it identifies itself to the control plane. The metadata has the keys that
 * `src/xds/request/node.ts` reads, those that Istio's debug tools show, and those that the environment adds:
 *
 * - `MESH_META_<KEY>=<string>` sets the metadata key `<KEY>` to a string;
 * - `MESH_METAJSON_<KEY>=<JSON>` sets it to a value of any type; MESH_METAJSON_LABELS overrides labels of the label
 *   file, and is stated separately as well: the control plane knows newer labels of the Pod.
 */
import { CtlError } from '../../core/errors.ts';
import { isObject } from '../../core/objects.ts';
import {
  DNS_AGENT_METADATA,
  NAME_PIECES_METADATA,
  POLICY_CLUSTER,
  POLICY_CLUSTER_METADATA,
  SDS_CLUSTER,
  SDS_CLUSTER_METADATA,
  STATIC_LABELS_METADATA,
  USER_SDS_METADATA,
} from '../../core/proxy.ts';
import type { JsonObject, JsonValue } from '../../protobuf/index.ts';

export interface NodeInput {
  readonly role: 'sidecar' | 'router';
  readonly ip: string;
  /** All addresses of the workload, including `ip`. */
  readonly addresses: readonly string[];
  /** `<workload>.<namespace>`. */
  readonly id: string;
  readonly domain: string;
  readonly cluster: string;
  readonly workload: string;
  readonly namespace: string;
  readonly serviceAccount: string;
  readonly clusterId: string;
  readonly interceptionMode: string;
  readonly version: string;
  /** Whether its Envoy can fetch certificates from the agent. */
  readonly sds: boolean;
  /** Whether the agent serves the Secrets of a gateway's namespace. */
  readonly userSds: boolean;
  /** Whether the DNS queries of the machine are redirected to the agent. */
  readonly dnsAgent: boolean;
  /** Whether the bootstrap has a cluster for the policy component. */
  readonly policyCluster?: boolean;
  /** Metadata of the cloud (CLOUD_METADATA). */
  readonly platform: Readonly<Record<string, string>> | undefined;
  /** The fields of the proxy configuration that the control plane reads; absent without such fields. */
  readonly proxyConfig?: JsonObject;
  /** Port of the agent's security token service; 0 for none. */
  readonly stsPort: number;
  /** Content of the orchestrator's label file; empty without one. */
  readonly labelFile: string;
  /** The environment; its MESH_META variables are read. */
  readonly env: Readonly<Record<string, string | undefined>>;
}

const META = 'MESH_META_';
const META_JSON = 'MESH_METAJSON_';

/** `envoy.config.core.v3.Node`, JSON form. Throws a CtlError that names an invalid variable. */
export function nodeOf(input: NodeInput): JsonObject {
  const { role, ip, id, domain, cluster } = input;
  const metadata = metadataOf(input);
  const locality = localityOf(metadata);
  return {
    id: [role, ip, id, domain].join('~'),
    cluster,
    metadata,
    ...(locality === undefined ? {} : { locality }),
  };
}

function metadataOf(input: NodeInput): JsonObject {
  const metadata: Record<string, JsonValue> = {
    NAME: input.workload,
    NAMESPACE: input.namespace,
    CLUSTER_ID: input.clusterId,
    INSTANCE_IPS: input.addresses.join(','),
    MESH_VERSION: input.version,
    ...(input.sds ? { [SDS_CLUSTER_METADATA]: SDS_CLUSTER } : {}),
    ...(input.policyCluster === true ? { [POLICY_CLUSTER_METADATA]: POLICY_CLUSTER } : {}),
    ...(input.userSds ? { [USER_SDS_METADATA]: 'true' } : {}),
    ...(input.dnsAgent ? { [DNS_AGENT_METADATA]: 'true', [NAME_PIECES_METADATA]: 'true' } : {}),
    ...(input.role === 'sidecar' ? { INTERCEPTION_MODE: input.interceptionMode } : {}),
    ...(input.serviceAccount === '' ? {} : { SERVICE_ACCOUNT: input.serviceAccount }),
    ...(input.platform === undefined ? {} : { PLATFORM_METADATA: input.platform }),
    ...(input.proxyConfig === undefined ? {} : { PROXY_CONFIG: input.proxyConfig }),
    // Envoy filters read it.
    ...(input.stsPort === 0 ? {} : { STS_PORT: String(input.stsPort) }),
  };
  const labels: Record<string, JsonValue> = parseLabelFile(input.labelFile);
  for (const [name, value] of Object.entries(input.env)) {
    if (value === undefined || value === '') continue;
    if (name.startsWith(META_JSON)) {
      const key = name.slice(META_JSON.length);
      const data = parseJson(name, value);
      if (key === 'LABELS') {
        metadata[STATIC_LABELS_METADATA] = parseLabels(name, data);
        Object.assign(labels, data);
      } else metadata[key] = data;
    } else if (name.startsWith(META)) {
      metadata[name.slice(META.length)] = value;
    }
  }
  metadata.LABELS = labels;
  return metadata;
}

function parseJson(name: string, text: string): JsonValue {
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    throw new CtlError('invalid_argument', `invalid value of variable ${name}: not JSON`);
  }
}

function parseLabels(name: string, data: JsonValue): JsonObject {
  if (isObject(data) && Object.values(data).every((value) => typeof value === 'string')) return data;
  throw new CtlError('invalid_argument', `invalid value of variable ${name}: expected an object of strings`);
}

/**
 * Reads the label file of the orchestrator's downward API: lines of `key="value"`, the value quoted as in Go. Other
 * lines are ignored.
 */
export function parseLabelFile(text: string): Record<string, string> {
  const labels: [string, string][] = [];
  for (const line of text.split('\n')) {
    const [, key, quoted] = /^([^=\s]+)=("(?:[^"\\]|\\.)*")\s*$/.exec(line) ?? [];
    if (key === undefined || quoted === undefined) continue;
    try {
      labels.push([key, String(JSON.parse(quoted))]);
    } catch {
      // An escape that JSON does not have; label values do not need one.
    }
  }
  return Object.fromEntries(labels);
}

/**
 * The locality of the label `mesh-locality` (or its twin `istio-locality`): `region.zone.subzone`, because a label
 * cannot contain a slash.
 */
function localityOf(metadata: JsonObject): JsonObject | undefined {
  const labels = isObject(metadata.LABELS) ? metadata.LABELS : {};
  const text = labels['mesh-locality'] ?? labels['istio-locality'];
  if (typeof text !== 'string' || text === '') return undefined;
  const [region = '', zone = '', subZone = ''] = text.split(text.includes('/') ? '/' : '.');
  return {
    region,
    ...(zone === '' ? {} : { zone }),
    ...(subZone === '' ? {} : { sub_zone: subZone }),
  };
}
