/**
 * Contracts of the agent's xDS proxy and of the parts of the agent that use its connection to the control plane.
 *
 *   Envoy, gRPC application ─▶ downstream (XDS_LOCAL) ─▶ relay ─▶ upstream (XDS_UPSTREAM), with the agent's certificate
 *                                                       │  ▲
 *                                              snapshot (XDS_SAVE)   own types: name table, health of the workload
 *
 * One upstream stream belongs to each downstream stream. The agent's own requests use the stream of Envoy while there
 * is one, otherwise a stream that the agent opens for them: a control plane never sees two streams of one proxy because
 * of them.
 */
import { XDS } from '../../core/xds-types.ts';

/** A type of resources that the agent itself subscribes to. */
export interface OwnType {
  /** For example {@link NAME_TABLE_TYPE}. */
  readonly typeUrl: string;
  /** An empty list subscribes to all. */
  readonly resourceNames: readonly string[];
  /**
   * Processes a response, whose changes belong together. Throws CtlError to reject it (NACK with the message): the
   * resources stay as they are.
   */
  receive(changes: OwnChanges): void;
}

/** How a response changes the resources of a type. */
export interface OwnChanges {
  /**
   * Encoded messages that are set, by the names of their resources; State of the World: by their indexes. They may be
   * kept: they keep nothing else in memory.
   */
  readonly set: ReadonlyMap<string, Uint8Array>;
  /** Names of resources that no longer exist; the subscriber may not know them. */
  readonly removed: readonly string[];
  /** Whether resources of earlier responses that are not in `set` no longer exist. */
  readonly whole: boolean;
  readonly version: string;
}

/** What the agent reports about the workload; the control plane writes it to the status of its WorkloadEntry. */
export interface WorkloadHealth {
  readonly healthy: boolean;
  /** Why it is unhealthy; '' when it is healthy. */
  readonly message: string;
}

/** The agent's connection to the control plane. */
export interface ControlPlaneConnection {
  /** Subscribes to a type for as long as the agent runs; also after reconnects. Each type at most once. */
  subscribe(type: OwnType): void;
  /** Reports the health of the workload; the latest report is sent again after each reconnect. */
  reportHealth(health: WorkloadHealth): void;
  /** `connected`, or since when (epoch ms) the control plane has not been reachable. */
  state(): { readonly connected: boolean; readonly since: number };
  close(): Promise<void>;
}

/** Type URL of a request that reports health: agents of Istio send the same. `error_detail` says why it is unhealthy. */
export const HEALTH_TYPE = 'type.googleapis.com/istio.v1.HealthInformation';
/** Type URL of the names that the agent's DNS server answers. */
export const NAME_TABLE_TYPE = XDS.nds.url;
