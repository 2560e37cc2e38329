/** Checks the settings of the agent's connection to the control plane and of its xDS proxy. */
import { CtlError } from '../core/errors.ts';
import type { JsonObject } from '../protobuf/index.ts';
import type { AgentSettings } from '../settings/index.ts';
import type { ControlPlane } from './settings/control-plane.ts';
import { type LocalAddress, parseXdsLocal } from './settings/xds-local.ts';

export type ControlPlanes = readonly [ControlPlane, ...ControlPlane[]];

/** Settings for the agent's own connection to the control plane, and for the proxy. */
export interface XdsPlan {
  readonly addresses: ControlPlanes;
  /** `envoy.config.core.v3.Node`, JSON form. */
  readonly node: JsonObject;
  /** False for the State of the World protocol. */
  readonly delta: boolean;
  /** SPIFFE ID that the certificate of the policy component must have; undefined: the name of its address. */
  readonly policyId: string | undefined;
  /** Where the proxy listens; undefined without a proxy. */
  readonly local: LocalAddress | undefined;
  readonly socketMode: number;
  /** File or folder of the snapshot; '' for none. */
  readonly savePath: string;
  /** Time limit for the answer to a host that Envoy asks for, ms; 0: none. */
  readonly hostTimeoutMs: number;
  /** Longest request of a proxy, bytes. */
  readonly maxRequestBytes: number;
  /** Maximum number of concurrent streams of the proxy's clients. */
  readonly maxStreams: number;
}

/** Envoy itself opens one stream. */
const ENVOY_STREAMS = 8;
/** In gRPC applications, some languages open one stream for each target. */
const GRPC_STREAMS = 64;

/** Envoy has the user of the agent; applications without Envoy have the group of the socket's folder. */
const [OWNER_SOCKET, GROUP_SOCKET] = [0o600, 0o660];

/**
 * @param loopback the loopback address of the workload's address family
 * @param policyId the SPIFFE ID of the policy component, if it has to have one
 */
export function planXds(
  settings: AgentSettings,
  addresses: ControlPlanes,
  node: JsonObject,
  { loopback, policyId }: { readonly loopback: string; readonly policyId: string | undefined },
): XdsPlan {
  const local = parseXdsLocal(settings.xdsLocal, loopback);
  if (local === undefined && addresses.length > 1)
    throw new CtlError('invalid_argument', 'several addresses need the xDS proxy (XDS_LOCAL)', {
      field: 'XDS_UPSTREAM',
    });
  if (local === undefined && settings.xdsSave !== '')
    throw new CtlError('invalid_argument', 'a snapshot needs the xDS proxy (XDS_LOCAL)', { field: 'XDS_SAVE' });
  return {
    addresses,
    node,
    delta: settings.deltaXds,
    policyId,
    local,
    socketMode: settings.disableEnvoy ? GROUP_SOCKET : OWNER_SOCKET,
    savePath: settings.xdsSave,
    hostTimeoutMs: settings.xdsHostTimeoutMs,
    maxRequestBytes: settings.maxReceiveBytes,
    maxStreams: settings.grpcBootstrap === '' ? ENVOY_STREAMS : GRPC_STREAMS,
  };
}
