/** One stream of a client of the proxy, connected to its own stream to the control plane. */
import type { Timer } from '../../core/clock.ts';
import { CtlError, toCtlError } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import type { WallClock } from '../../core/wall-clock.ts';
import { XDS, xdsTypeOfUrl } from '../../core/xds-types.ts';
import type { Variant } from './messages.ts';
import type { OwnTypes } from './own-types.ts';
import { Relay } from './relay.ts';
import type { Snapshot } from './snapshot.ts';
import type { Upstream, UpstreamLink, UpstreamStream } from './upstream.ts';

/** The stream of a client in the form of grpc-js. */
export interface ClientDuplex {
  /** Returns false when the caller should wait for `drain`. */
  write(bytes: Buffer): boolean;
  pause(): unknown;
  resume(): unknown;
  on(event: 'data', listener: (bytes: Buffer) => void): unknown;
  on(event: 'drain' | 'end' | 'close', listener: () => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  /** Ends the stream with status OK. */
  end(): unknown;
}

/** Counters of all clients. */
export interface ProxyCounters {
  requests: number;
  responses: number;
  rejections: number;
  /** Responses from the snapshot. */
  fromSnapshot: number;
  /** Hosts that were answered with HTTP 503. */
  unavailableHosts: number;
}

export interface ClientStreamOptions {
  readonly stream: ClientDuplex;
  readonly variant: Variant;
  readonly noncePrefix: string;
  readonly upstream: Upstream;
  readonly clock: WallClock;
  /** Time limit for the answer to a host that Envoy asks for while the control plane cannot be reached, ms; 0: none. */
  readonly hostTimeoutMs: number;
  readonly counters: ProxyCounters;
  readonly log: Log;
  /** Ends the stream with an error that the client sees. */
  readonly endWithError: (error: CtlError) => void;
  /** The first request has arrived. Returns the snapshot of this client, if it may use one. */
  readonly identified: (
    client: ClientStream,
    node: { readonly id: string; readonly userAgent: string },
  ) => Snapshot | undefined;
  readonly closed: (client: ClientStream) => void;
}

/**
 * Time limit for the first response of the control plane: it may hang, and another address or the snapshot may serve.
 * meshd generates the first configuration of a large mesh within seconds, and answers thousands of proxies that have
 * connected at once one after the other.
 */
const ANSWER_TIMEOUT_MS = 30_000;

/**
 * The time limit for a host is so many times as long while the control plane is connected and has left no host without
 * an answer: it may be slow, and other configurations would have the host. A control plane that hangs is known by the
 * first host.
 */
const SLOW_FACTOR = 5;

/** Characters of a rejection in the log: it may quote a whole listener. */
const MAX_SHOWN = 500;
/** A dead connection is noticed within this time, see `upstream.ts`. */
const ALIVE_MS = 40_000;

export class ClientStream {
  readonly relay: Relay;
  readonly #options: ClientStreamOptions;
  #upstream: UpstreamStream | undefined;
  #link: UpstreamLink | undefined;
  #own: OwnTypes | undefined;
  #answer: Timer | undefined;
  #hosts: Timer | undefined;
  #isUnavailable = false;
  /** Whether the control plane may only be slow. */
  #mayBeSlow = true;
  #snapshot: Snapshot | undefined;
  #servesSnapshot = false;
  #confirmed = false;
  #closed = false;
  /** Envoy's node id, for the log. */
  id = '';

  constructor(options: ClientStreamOptions) {
    this.#options = options;
    const { stream, counters, variant, noncePrefix } = options;
    this.relay = new Relay(variant, noncePrefix, {
      toClient: (bytes) => this.#toClient(bytes),
      toUpstream: (bytes) => this.#toUpstream(bytes),
      identified: (node) => {
        this.id = node.id;
        this.#snapshot = options.identified(this, node);
        return this.#snapshot;
      },
      rejected: (typeUrl, message) => {
        counters.rejections++;
        const type = xdsTypeOfUrl(typeUrl);
        // Envoy's message about a secret may quote the secret.
        const isQuotable = type === undefined || !XDS[type].confidential;
        const shown = isQuotable ? message.slice(0, MAX_SHOWN) : 'not shown, because it may quote a secret';
        options.log.warn('the proxy rejects a response', { type: typeUrl, message: shown });
      },
      servedFromSnapshot: (typeUrl, resources) => this.#served(typeUrl, resources),
      unavailable: (names) => this.#unavailable(names),
    });
    stream.on('data', (bytes) => this.#fromClient(bytes));
    stream.on('drain', () => this.#link?.resume());
    stream.on('end', () => {
      stream.end();
      this.close();
    });
    stream.on('error', () => this.close());
    stream.on('close', () => this.close());
  }

  /** Whether the stream to the control plane is open, and the control plane has shown that it serves it. */
  get connected(): boolean {
    return this.#confirmed;
  }

  /** The agent's own types use this client's stream to the control plane from now on. */
  carry(own: OwnTypes): void {
    this.#own = own;
    if (this.#link !== undefined) this.relay.carry(own);
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#answer?.cancel();
    this.#hosts?.cancel();
    this.relay.detach();
    void this.#upstream?.close();
    this.#options.closed(this);
  }

  /** The snapshot and the agent's own types are another client's from now on. */
  release(): void {
    this.#snapshot = undefined;
    this.#own = undefined;
    this.relay.release();
  }

  /** Ends the client's stream with an error. */
  fail(error: CtlError): void {
    if (this.#closed) return;
    this.#options.endWithError(error);
    this.close();
  }

  #fromClient(bytes: Buffer): void {
    if (this.#closed) return;
    const { counters, log, clock } = this.#options;
    counters.requests++;
    try {
      this.relay.fromClient(bytes, clock.now());
    } catch (error) {
      const refusal = toCtlError(error);
      log.warn(`the stream of a proxy was closed: ${refusal.oneLine()}`, { proxy: this.id });
      this.fail(refusal);
      return;
    }
    this.#upstream ??= this.#open();
    this.#watchAnswer();
    this.#watchHosts();
  }

  #open(): UpstreamStream {
    const { upstream, variant, stream } = this.#options;
    return upstream.open(variant, {
      attached: (link) => {
        this.#link = link;
        this.#mayBeSlow = true;
        this.relay.attach(this.#own);
        this.#watchAnswer();
      },
      stable: () => this.#confirm(),
      message: (bytes) => this.#fromUpstream(bytes),
      drained: () => void stream.resume(),
      detached: () => {
        this.#link = undefined;
        this.#lost();
        this.#answer?.cancel();
        this.#answer = undefined;
        this.relay.detach();
        stream.resume();
      },
      failed: () => {
        this.#mayBeSlow = false;
        this.relay.goOffline();
        this.#watchHosts();
      },
    });
  }

  #fromUpstream(bytes: Buffer): void {
    this.#options.counters.responses++;
    this.#answer?.cancel();
    this.#answer = undefined;
    try {
      this.relay.fromUpstream(bytes);
    } catch (error) {
      this.#upstream?.fail(toCtlError(error));
      return;
    }
    this.#confirm();
  }

  #served(typeUrl: string, resources: number): void {
    const { clock, counters, log } = this.#options;
    const snapshot = this.#snapshot;
    counters.fromSnapshot++;
    log.debug('a response from the snapshot', { type: typeUrl, resources });
    if (this.#servesSnapshot || snapshot === undefined) return;
    this.#servesSnapshot = true;
    const ageSeconds = Math.round((clock.now() - snapshot.asOf) / 1000);
    const asOf = new Date(snapshot.asOf).toISOString();
    log.warn('without the control plane, the proxy is served from the snapshot', { proxy: this.id, asOf, ageSeconds });
  }

  #unavailable(names: readonly string[]): void {
    const { counters, log } = this.#options;
    counters.unavailableHosts += names.length;
    const fields = { proxy: this.id, first: names[0] ?? '', hosts: names.length };
    const message = `the control plane has not answered within ${this.#hostLimitMs} ms: HTTP 503 for unknown hosts`;
    if (this.#isUnavailable) log.debug(message, fields);
    else log.warn(message, fields);
    this.#isUnavailable = true;
    this.#mayBeSlow = false;
  }

  /** The connection has ended; if it was confirmed, it was alive when its last PING was answered. */
  #lost(): void {
    const snapshot = this.#snapshot;
    const wasConfirmed = this.#confirmed;
    this.#confirmed = false;
    if (wasConfirmed && snapshot !== undefined)
      snapshot.asOf = Math.max(snapshot.asOf, this.#options.clock.now() - ALIVE_MS);
  }

  /** The control plane serves the stream: it has responded, or has kept it open for a long time. */
  #confirm(): void {
    const { clock, log } = this.#options;
    this.#confirmed = true;
    if (this.#snapshot !== undefined) this.#snapshot.asOf = clock.now();
    if (this.#servesSnapshot) log.info('the proxy is served by the control plane again', { proxy: this.id });
    this.#servesSnapshot = false;
    this.#isUnavailable = false;
    this.#mayBeSlow = true;
  }

  #toClient(bytes: Buffer): void {
    if (!this.#options.stream.write(bytes)) this.#link?.pause();
  }

  #toUpstream(bytes: Buffer): void {
    if (this.#link?.write(bytes) === false) this.#options.stream.pause();
  }

  /** How long a host may wait for its answer, ms; 0: without limit. */
  get #hostLimitMs(): number {
    const { hostTimeoutMs } = this.#options;
    return this.#mayBeSlow ? hostTimeoutMs * SLOW_FACTOR : hostTimeoutMs;
  }

  /** Ends the wait for hosts in time; to be called when one is asked for, and when the limit has become shorter. */
  #watchHosts(): void {
    const { clock } = this.#options;
    const { waitsSince } = this.relay;
    this.#hosts?.cancel();
    this.#hosts = undefined;
    if (waitsSince === undefined || this.#hostLimitMs === 0 || this.#closed) return;
    this.#hosts = clock.setTimer(Math.max(0, waitsSince + this.#hostLimitMs - clock.now()), () => {
      try {
        this.relay.stopWaiting(clock.now() - this.#hostLimitMs);
      } catch (error) {
        this.fail(toCtlError(error));
      }
      this.#watchHosts();
    });
  }

  #watchAnswer(): void {
    if (this.#answer !== undefined || this.#link === undefined || !this.relay.awaitsAnswer) return;
    this.#answer = this.#options.clock.setTimer(ANSWER_TIMEOUT_MS, () => {
      this.#answer = undefined;
      const message = `no response within ${ANSWER_TIMEOUT_MS / 1000} s`;
      if (this.relay.awaitsAnswer) this.#upstream?.fail(new CtlError('deadline_exceeded', message));
    });
  }
}
