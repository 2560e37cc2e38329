/** Events of the server for metrics and logs. Passed in, so that this module depends on neither. */

import type { CtlError } from '../../core/errors.ts';
import type { ProxyNode } from '../../core/proxy.ts';
import type { XdsType } from '../../core/xds-types.ts';
import type { EarlyEnd } from '../../grpc/index.ts';
import type { AskEvent } from '../on-demand/index.ts';

/** A stream whose node was accepted. */
export interface ObservedStream {
  readonly connectionId: string;
  /** The key by which limits are counted: see caller-key.ts. */
  readonly caller: string;
}

/** A response that left for the socket. */
export interface PushedResponse {
  readonly type: XdsType;
  readonly connectionId: string;
  /** Bytes of the message, before compression. */
  readonly bytes: number;
  /** After compression; undefined for a message that was sent as it is. */
  readonly compressed: number | undefined;
  /** From the start of the push until its bytes had drained to the socket. */
  readonly seconds: number;
}

/** `send`: the stream has ended; `timeout`: the proxy does not read. */
export type SendFailure = 'send' | 'timeout';

export interface RejectedResponse extends ObservedStream {
  readonly type: XdsType;
  readonly nodeId: string;
  /** The proxy's error message, shortened. */
  readonly message: string;
  /** Newly quarantined resources; none during the search for them. */
  readonly quarantined: number;
  /** The names of some of them, for people to read. */
  readonly named: readonly string[];
}

export interface XdsObserver {
  /**
   * A proxy has connected (its node was accepted), or its stream has ended; called in pairs (`ctl_xds` is the
   * difference).
   */
  connected(stream: ObservedStream, node: ProxyNode): void;
  disconnected(stream: ObservedStream): void;
  /** `ctl_xds_pushes`, `ctl_xds_push_time`, `ctl_xds_config_size_bytes`, `ctl_xds_compression_*`. */
  pushed(response: PushedResponse): void;
  /** A response could not be written. `ctl_xds_pushes` of `<type>_senderr`, `ctl_xds_push_errors_total`. */
  sendFailed(type: XdsType, why: SendFailure): void;
  /** `ctl_xds_*_reject`, `ctl_total_xds_rejects`. */
  rejected(response: RejectedResponse): void;
  /** Something happened to a proxy on demand. `ctl_xds_on_demand_*`. */
  asked(event: AskEvent): void;
  /** `ctl_xds_expired_nonce`. */
  expiredNonce(type: XdsType, connectionId: string): void;
  /** `ctl_xds_write_timeout`: the stream is closed. */
  writeTimeout(stream: ObservedStream): void;
  /** A request exceeded the receive limit (MESH_GPRC_MAXRECVMSGSIZE); its stream is closed. */
  requestTooLarge(peer: string, details: string): void;
  /** A stream was refused: invalid node or request, no authorization, overload. */
  refused(peer: string, error: CtlError): void;
  /** A connection has ended before its client sent the preface of HTTP/2. `ctl_grpc_connections_ended_early`. */
  endedEarly(reason: EarlyEnd): void;
  /** A stream subscribed to a type that is not served; called once per type and stream. */
  unknownType(stream: ObservedStream, typeUrl: string): void;
  /** A bug of this program (`ctl_total_xds_internal_errors`). */
  internalError(error: unknown, connectionId: string): void;
}
