/** Envoys that only forward redirected connections, for tests of redirection. */
import type { JsonValue } from '../../../src/protobuf/index.ts';
import { type Envoy, type Namespace, type Owner, startEnvoy } from '../../harness/index.ts';

const TYPE = 'type.googleapis.com/envoy.extensions.filters';

export type Mode = 'REDIRECT' | 'TPROXY';

/** Forwards connections to their original destination; inbound ones from the source address that the rules exempt. */
function passingListener(name: string, address: string, port: number, transparent: boolean): JsonValue {
  const cluster = `${name}-cluster`;
  return {
    name,
    address: { socket_address: { address, port_value: port } },
    ...(transparent ? { transparent: true } : {}),
    listener_filters: [
      { name: 'original-dst', typed_config: { '@type': `${TYPE}.listener.original_dst.v3.OriginalDst` } },
    ],
    filter_chains: [
      {
        filters: [
          {
            name: 'tcp',
            typed_config: { '@type': `${TYPE}.network.tcp_proxy.v3.TcpProxy`, stat_prefix: name, cluster },
          },
        ],
      },
    ],
  };
}

function passingCluster(name: string, source: string | undefined): JsonValue {
  const bind =
    source === undefined ? {} : { upstream_bind_config: { source_address: { address: source, port_value: 0 } } };
  return {
    name: `${name}-cluster`,
    type: 'ORIGINAL_DST',
    lb_policy: 'CLUSTER_PROVIDED',
    connect_timeout: '10s',
    ...bind,
  };
}

export interface PassingProxy {
  readonly namespace: Namespace;
  readonly name: string;
  readonly mode: Mode;
  readonly uid: number;
}

export function startPassingProxy(owner: Owner, { namespace, name, mode, uid }: PassingProxy): Promise<Envoy> {
  const transparent = mode === 'TPROXY';
  return startEnvoy(owner, {
    id: name,
    namespace,
    uid,
    transparent,
    adminPort: 15000,
    staticResources: {
      listeners: [
        passingListener('in4', '0.0.0.0', 15006, transparent),
        passingListener('in6', '::', 15006, transparent),
        passingListener('out4', '0.0.0.0', 15001, transparent),
        passingListener('out6', '::', 15001, transparent),
      ],
      clusters: [
        passingCluster('in4', '127.0.0.6'),
        passingCluster('in6', '::6'),
        passingCluster('out4', undefined),
        passingCluster('out6', undefined),
      ],
    },
  });
}
