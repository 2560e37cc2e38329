/** A connected proxy as its node says: parsed once at the border (`xds/request/node.ts`), plain data everywhere else. */
import type { Identity } from './identity.ts';

/**
 * Name of the static cluster of a bootstrap through which an Envoy asks its agent for the secrets `default` and
 * `ROOTCA`. Envoy refuses whatever names a cluster that it does not have, so a proxy says that it has it: node metadata
 * {@link SDS_CLUSTER_METADATA} with this name as its value. Bootstraps of Istio's agent have a cluster of this name
 * too.
 */
export const SDS_CLUSTER = 'sds-grpc';

/** Key of the node metadata by which a proxy says that it can fetch mesh certificates. */
export const SDS_CLUSTER_METADATA = 'MESH_SDS_CLUSTER';

/**
 * Names of the listeners that take redirected connections; every sidecar whose interception is not NONE is sent both.
 * Istio's proxies have them under the same names.
 */
export const VIRTUAL_OUTBOUND_LISTENER = 'virtualOutbound';
export const VIRTUAL_INBOUND_LISTENER = 'virtualInbound';

export interface ProxyNode {
  /** The full node id: `sidecar~<ip>~<pod>.<namespace>~<namespace>.svc.cluster.local`. */
  readonly id: string;
  readonly type: 'sidecar' | 'router';
  /** Own addresses: the id's, then INSTANCE_IPS; never empty for sidecars. */
  readonly addresses: readonly string[];
  /** `<pod>.<namespace>` of the id. */
  readonly workload: string;
  readonly namespace: string;
  readonly dnsDomain: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly interception: 'REDIRECT' | 'TPROXY' | 'NONE';
  readonly clusterId: string;
  readonly network: string;
  /** What the node says, or where it says nothing what its credential proves; '' when neither does. */
  readonly serviceAccount: string;
  /** What the stream's credential proves; undefined on addresses that ask for none. All else here is only said. */
  readonly identity: Identity | undefined;
  /** `region/zone/subzone`; '' when not sent. */
  readonly locality: string;
  /** Names of `node.extensions`, sorted; undefined when the node sent none. */
  readonly extensions: readonly string[] | undefined;
  /** `1.40.0` of user_agent_build_version, or ''. */
  readonly version: string;
  /** MESH_VERSION / ISTIO_VERSION of the metadata, for tools; '' when absent. */
  readonly meshVersion: string;
  /** Whether its route configurations may leave their virtual hosts to VHDS on the stream that it opened. */
  readonly discoversVirtualHosts: boolean;
  /**
   * Whether its clusters are to ask for their endpoints by short names, because the proxy repeats them all on its
   * stream.
   */
  readonly shortEndpointNames: boolean;
  /** Whether the proxy can fetch mesh certificates: without them it neither speaks nor takes mutual TLS. */
  readonly sds: boolean;
  /** Set where they come from Istio's agent, which serves fewer names of files. */
  readonly istioAgent?: true;
}
