/** What the server tells about itself, for metrics and logs. Passed in, so that this room knows neither. */

import type { CtlError } from '../../core/errors.ts';
import type { ProxyNode } from '../../core/proxy.ts';
import type { XdsType } from '../../core/xds-types.ts';

/** A response that left for the socket. */
export interface PushedResponse {
  readonly type: XdsType;
  readonly connectionId: string;
  /** Bytes of the frame. */
  readonly bytes: number;
  /** From the beginning of the push until its bytes had drained to the socket. */
  readonly seconds: number;
}

export interface RejectedResponse {
  readonly type: XdsType;
  readonly connectionId: string;
  readonly nodeId: string;
  /** What the proxy says, shortened. */
  readonly message: string;
  /** Resources that are kept back from now on, for people to read; empty while the culprits are being searched for. */
  readonly quarantined: readonly string[];
}

export interface XdsObserver {
  /**
   * A proxy is connected (its node was accepted), or its stream has ended; called in pairs (`ctl_xds` is the
   * difference).
   */
  connected(connectionId: string, node: ProxyNode): void;
  disconnected(connectionId: string): void;
  /** `ctl_xds_pushes`, `ctl_xds_push_time`. */
  pushed(response: PushedResponse): void;
  /** A response that was not taken: its stream has ended or is stuck. `ctl_xds_pushes` of `<type>_senderr`. */
  sendFailed(type: XdsType): void;
  /** `ctl_xds_*_reject`, `ctl_total_xds_rejects`. */
  rejected(response: RejectedResponse): void;
  /** `ctl_xds_expired_nonce`. */
  expiredNonce(type: XdsType, connectionId: string): void;
  /** `ctl_xds_write_timeout`: the stream is closed. */
  writeTimeout(connectionId: string): void;
  /** A request was larger than the receive limit (MESH_GPRC_MAXRECVMSGSIZE); its stream is closed. */
  requestTooLarge(peer: string, details: string): void;
  /** A stream was turned away: bad node, bad request, overload. */
  refused(peer: string, error: CtlError): void;
  /** A type that is not served here was asked for; once per type and stream. */
  unknownType(connectionId: string, typeUrl: string): void;
  /** A fault of ours (`ctl_total_xds_internal_errors`). */
  internalError(error: unknown, connectionId: string): void;
}
