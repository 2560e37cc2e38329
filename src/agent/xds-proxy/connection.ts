/**
 * The agent's connection to the control plane: the clients of the xDS proxy, and the stream for the agent's own types
 * and reports. This is Envoy's stream while there is one, otherwise a stream of the agent.
 */
import type { Timer } from '../../core/clock.ts';
import { type CtlError, toCtlError } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import type { WallClock } from '../../core/wall-clock.ts';
import { type ClientDuplex, ClientStream, type ProxyCounters } from './client-stream.ts';
import { readResponse, type Variant, writeRequest } from './messages.ts';
import { type OwnStream, OwnTypes } from './own-types.ts';
import { Snapshot } from './snapshot.ts';
import type { ControlPlaneConnection, OwnType, WorkloadHealth } from './types.ts';
import type { Upstream, UpstreamStream } from './upstream.ts';

export interface ConnectionOptions {
  readonly upstream: Upstream;
  /** The variant of Envoy and of the agent's own stream. */
  readonly variant: Variant;
  /** The node id of Envoy. */
  readonly nodeId: string;
  /** The encoded Node of the agent's own stream. */
  readonly node: Buffer;
  /** Whether the proxy is on: Envoy's stream may carry the agent's own types. */
  readonly proxied: boolean;
  /** Time limit for the answer to a host that Envoy asks for, ms; 0: none. */
  readonly hostTimeoutMs: number;
  /** The snapshot of an earlier run of the agent. */
  readonly snapshot?: Snapshot | undefined;
  /** Begins the nonces of responses from the snapshot; differs between agents and runs. */
  readonly noncePrefix: string;
  readonly clock: WallClock;
  readonly log: Log;
}

/** The name of Envoy in its node. */
const ENVOY = 'envoy';
/** How long the agent's own types wait for a stream of Envoy, which starts or reconnects. */
const OWN_STREAM_DELAY_MS = 2_000;

export class Connection implements ControlPlaneConnection {
  readonly counters: ProxyCounters = { requests: 0, responses: 0, rejections: 0, fromSnapshot: 0, unavailableHosts: 0 };
  readonly snapshot: Snapshot;
  readonly #options: ConnectionOptions;
  readonly #own: OwnTypes;
  readonly #clients = new Set<ClientStream>();
  /** Envoy: it has the snapshot, and carries the agent's own types. */
  #envoy: ClientStream | undefined;
  #stream: UpstreamStream | undefined;
  #waiting: Timer | undefined;
  #closed = false;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.#own = new OwnTypes(options.log);
    this.snapshot = options.snapshot ?? new Snapshot(options.variant, options.clock.now());
  }

  subscribe(type: OwnType): void {
    this.#own.subscribe(type);
    this.#carryOwn();
  }

  reportHealth(health: WorkloadHealth): void {
    this.#own.reportHealth(health);
    this.#carryOwn();
  }

  state(): { readonly connected: boolean; readonly since: number } {
    return this.#options.upstream.state();
  }

  /** The open streams of clients. */
  get clients(): number {
    return this.#clients.size;
  }

  /** How old the snapshot is, ms: 0 while Envoy is connected to the control plane. Undefined without a snapshot. */
  snapshotAge(): number | undefined {
    if (this.snapshot.isEmpty) return undefined;
    return this.#envoy?.connected === true ? 0 : this.#options.clock.now() - this.snapshot.asOf;
  }

  /** Serves a stream that a client has opened. */
  accept(stream: ClientDuplex, variant: Variant, endWithError: (error: CtlError) => void): void {
    const { upstream, clock, log, noncePrefix, hostTimeoutMs } = this.#options;
    const client = new ClientStream({
      stream,
      variant,
      noncePrefix: `${noncePrefix}-`,
      upstream,
      clock,
      hostTimeoutMs,
      counters: this.counters,
      log,
      endWithError,
      identified: (identified, node) => this.#identified(identified, variant, node),
      closed: (closed) => this.#gone(closed),
    });
    this.#clients.add(client);
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#waiting?.cancel();
    for (const client of this.#clients) client.close();
    await this.#stream?.close();
  }

  /** The snapshot is that of the agent's Envoy; it has the resources of one client only. */
  #identified(
    client: ClientStream,
    variant: Variant,
    { id, userAgent }: { readonly id: string; readonly userAgent: string },
  ): Snapshot | undefined {
    const { nodeId, log } = this.#options;
    log.info('a proxy is connected', { proxy: id, program: userAgent, variant });
    if (id !== nodeId || userAgent !== ENVOY || variant !== this.#options.variant) return undefined;
    this.#envoy?.release();
    this.#envoy = client;
    this.#closeOwnStream();
    client.carry(this.#own);
    return this.snapshot;
  }

  #gone(client: ClientStream): void {
    this.#clients.delete(client);
    if (client.id !== '') this.#options.log.info('a proxy is disconnected', { proxy: client.id });
    if (this.#envoy !== client) return;
    this.#envoy = undefined;
    this.#carryOwn();
  }

  /** Opens a stream for the agent's own types, unless Envoy carries them or is expected to. */
  #carryOwn(): void {
    if (this.#closed || !this.#own.needed || this.#envoy !== undefined) return;
    if (this.#stream !== undefined || this.#waiting !== undefined) return;
    const open = (): void => {
      this.#waiting = undefined;
      this.#stream = openOwnStream(this.#options, this.#own);
    };
    if (this.#options.proxied) this.#waiting = this.#options.clock.setTimer(OWN_STREAM_DELAY_MS, open);
    else open();
  }

  #closeOwnStream(): void {
    this.#waiting?.cancel();
    this.#waiting = undefined;
    void this.#stream?.close();
    this.#stream = undefined;
  }
}

/** Opens a stream only for the agent's own types. */
function openOwnStream({ upstream, variant, node, log }: ConnectionOptions, own: OwnTypes): UpstreamStream {
  let ownStream: OwnStream | undefined;
  const stream = upstream.open(variant, {
    attached(link) {
      let isFirst = true;
      ownStream = own.attach(variant, (request) => {
        link.write(writeRequest(variant, isFirst ? { ...request, node } : request));
        isFirst = false;
      });
    },
    stable: () => undefined,
    message(bytes) {
      try {
        const response = readResponse(variant, bytes);
        if (own.has(response.typeUrl)) ownStream?.receive(response);
        else log.debug('a response without a subscription', { type: response.typeUrl });
      } catch (error) {
        stream.fail(toCtlError(error));
      }
    },
    drained: () => undefined,
    detached: () => ownStream?.detach(),
    failed: () => undefined,
  });
  return stream;
}
