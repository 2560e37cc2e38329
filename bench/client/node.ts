/**
 * The node of a simulated proxy: that of a real Envoy which `ctl-agent` runs in an injected Pod. The metadata comes
 * from the agent's own code; Envoy's part (its version and its 516 extensions, 60 kB) was recorded from the pinned
 * Envoy. `test/e2e/bench-proxy.test.ts` compares the whole with the first request of a real agent's Envoy.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type NodeInput, nodeOf } from '../../src/agent/bootstrap/node.ts';
import { buildInfo } from '../../src/core/build-info.ts';
import { fromProtoJson } from '../../src/protobuf/index.ts';
import type { Content } from '../options.ts';

const NODE = 'envoy.config.core.v3.Node';

/** The fields of the node that Envoy adds, as proto3 JSON. `UPDATE_GOLDEN=1` rewrites it. */
export const ENVOY_PART = join(import.meta.dirname, 'golden/envoy-node.json');

export interface SimulatedSidecar {
  readonly index: number;
  readonly namespace: string;
  readonly content: Content;
  /** It gets what it asks for. */
  readonly onDemand?: boolean;
}

/** What the agent of an injected Pod knows. Its Pod is that of a Deployment, without other addresses. */
export function sidecarNode({ index, namespace, content, onDemand = false }: SimulatedSidecar): NodeInput {
  const [ip, name] = [`10.250.${index >> 8}.${index & 255}`, `proxy-${index}`];
  const labels = {
    app: 'proxy',
    'mesh.io/rev': 'default',
    'pod-template-hash': '6d4b75cb6d',
    'security.mesh.io/tlsMode': 'mesh',
    'service.mesh.io/canonical-name': 'proxy',
    'service.mesh.io/canonical-revision': 'v1',
    version: 'v1',
  };
  return {
    role: 'sidecar',
    ip,
    addresses: [ip],
    id: `${name}.${namespace}`,
    domain: `${namespace}.svc.cluster.local`,
    cluster: 'mesh-proxy',
    workload: name,
    namespace,
    serviceAccount: 'default',
    clusterId: 'Orchestrator',
    interceptionMode: 'REDIRECT',
    version: buildInfo().version,
    sds: content === 'mtls',
    userSds: false,
    dnsAgent: false,
    platform: undefined,
    stsPort: 0,
    labelFile: Object.entries(labels)
      .map(([key, value]) => `${key}="${value}"\n`)
      .join(''),
    env: {
      MESH_META_WORKLOAD_NAME: 'proxy',
      MESH_META_OWNER: `kubernetes://apis/apps/v1/namespaces/${namespace}/deployments/proxy`,
      ...(onDemand && { MESH_META_SIDECAR_CONFIGURATION: 'on-demand' }),
    },
  };
}

let envoyPart: Buffer | undefined;

/** The encoded Node, in chunks of which the last, and by far the largest, is shared by all proxies. */
export function encodeNode(input: NodeInput): readonly Buffer[] {
  envoyPart ??= Buffer.from(fromProtoJson(NODE, JSON.parse(readFileSync(ENVOY_PART, 'utf8'))));
  return [Buffer.from(fromProtoJson(NODE, nodeOf(input))), envoyPart];
}
