/** Inputs of the bootstrap for tests. */
import type { BootstrapInput } from '../bootstrap.ts';
import { type NodeInput, nodeOf } from '../node.ts';

export function nodeInput(changes: Partial<NodeInput> = {}): NodeInput {
  return {
    role: 'sidecar',
    ip: '10.0.0.1',
    addresses: ['10.0.0.1', 'fd00::1'],
    id: 'web-0.shop',
    domain: 'shop.svc.cluster.local',
    cluster: 'web',
    workload: 'web-0',
    namespace: 'shop',
    serviceAccount: 'web',
    clusterId: 'Orchestrator',
    interceptionMode: 'REDIRECT',
    version: '1.2.3',
    sds: true,
    userSds: false,
    platform: undefined,
    stsPort: 0,
    dnsAgent: false,
    labelFile: 'app="web"\nmesh-locality="r1.z1"\n',
    env: {},
    ...changes,
  };
}

export function bootstrapInput(changes: Partial<BootstrapInput> = {}): BootstrapInput {
  return {
    node: nodeOf(nodeInput()),
    adminPort: 15000,
    prometheusPort: 15090,
    ipv6: false,
    controlPlane: { host: 'meshd.mesh-system.svc', port: 15012, tls: true, serverName: 'meshd.mesh-system.svc' },
    xdsLocal: undefined,
    sdsPath: './etc/mesh/proxy/SDS',
    policy: { san: 'spiffe://cluster.local/ns/mesh-system/sa/policy', inBootstrap: false },
    delta: true,
    initialFetchTimeoutMs: 0,
    outlierLogPath: '',
    countsConnections: false,
    minimalStats: false,
    extraStatTags: [],
    statsdUdpAddress: '',
    services: {},
    ...changes,
  };
}
