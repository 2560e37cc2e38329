/** Proxies of Gateways as streams show them, without a stream. */
import type { ProxyNode } from '../../core/proxy.ts';
import type { ServedListener } from '../../translators/index.ts';
import type { ObservedProxy } from '../programmed/noted-proxy.ts';

export type State = 'acknowledged' | 'outstanding' | { readonly rejected: string };

/** What a proxy has; tests change it. */
export class GatewayProxy implements ObservedProxy {
  version = 0;
  /** Whether it has asked for listeners. */
  asks = true;
  /** By port. */
  readonly states = new Map<number, State>();
  /** How often it was looked at. */
  looks = 0;

  completeVersion(): number {
    return this.version;
  }

  listeners(): ReadonlyMap<string, State> | undefined {
    this.looks++;
    if (!this.asks) return undefined;
    return new Map([...this.states].map(([port, state]) => [`0.0.0.0_${port}`, state]));
  }
}

/** The node of a proxy of Gateway `edge/web`. */
export function gatewayNode(changes: Partial<ProxyNode> = {}): ProxyNode {
  return {
    id: 'router~10.0.0.1~web-1.edge~edge.svc.cluster.local',
    type: 'router',
    addresses: ['10.0.0.1'],
    workload: 'web-1.edge',
    namespace: 'edge',
    dnsDomain: 'edge.svc.cluster.local',
    labels: { 'gateway.networking.k8s.io/gateway-name': 'web' },
    interception: 'NONE',
    clusterId: '',
    network: '',
    serviceAccount: 'web-meshd',
    identity: { trustDomain: 'cluster.local', namespace: 'edge', serviceAccount: 'web-meshd' },
    locality: '',
    extensions: undefined,
    version: '',
    meshVersion: '',
    metadata: '',
    discoversVirtualHosts: false,
    shortEndpointNames: false,
    sds: true,
    ...changes,
  };
}

export const served = (port: number, digest = `digest-${port}`): ServedListener => ({ name: `l${port}`, port, digest });
