/**
 * One ADS stream: passes requests to the protocol machine, pushes of the engine to the machine, and responses to the
 * writer. All pushes come through the engine's queue and so are throttled; an ACK needs no slot of the queue.
 */
import { CtlError } from '../../core/errors.ts';
import type { ProxyNode } from '../../core/proxy.ts';
import { XDS, type XdsType, xdsTypeOfUrl } from '../../core/xds-types.ts';
import type { SendResult } from '../../grpc/index.ts';
import type {
  ConnectionStatus,
  Parts,
  ProxySession,
  Push,
  PushEngine,
  PushOutcome,
  PushSink,
  ResourceAnswer,
} from '../../push/index.ts';
import type { Caller } from '../../security/index.ts';
import { ALWAYS_NEEDED, type HeldContent, type StreamDemand } from '../on-demand/index.ts';
import { AdsMachine, type Answer, type AnyRequest, type Variant } from '../protocol/index.ts';
import type { KnownExtensions } from '../request/index.ts';
import type { StreamFrames } from './compression/stream-frames.ts';
import type { DemandCount } from './demand/demand-of-streams.ts';
import { askingOf, demandCountOf, demandedParts, explainedParts, neededFor } from './demand/demanded-parts.ts';
import type { StreamAdmission } from './limits/admission.ts';
import type { CallerLimits, StreamLimits } from './limits/caller-limits.ts';
import { authorizedNode, type PodFinder } from './node-authorization.ts';
import type { ObservedStream, XdsObserver } from './observer.ts';
import { Patience } from './patience.ts';
import { rejectedResponse } from './rejected-response.ts';
import { withoutSecrets } from './rejected-secrets.ts';
import { ResponseWriter, type WrittenFrame } from './response-writer.ts';
import { nodeOf } from './stream-node.ts';
import type { Transport } from './transport.ts';
import { UnknownTypes } from './unknown-types.ts';
import { connectedProxy, HEALTH_TYPE, type WorkloadConnected, type WorkloadStream } from './workload-stream.ts';

export interface StreamDeps<Request extends AnyRequest> {
  readonly transport: Transport;
  readonly protocol: Variant<Request>;
  /** What a proxy gets that asks for what it uses; absent: all. */
  readonly demand?: StreamDemand<Request> | undefined;
  /** Lists of extensions that nodes have sent. */
  readonly extensions: KnownExtensions;
  readonly frames: StreamFrames;
  readonly limits: CallerLimits;
  readonly engine: PushEngine;
  readonly admission: StreamAdmission;
  /** Undefined on an address without authentication. */
  readonly caller: Caller | undefined;
  /** The key by which the limits of the caller are counted. */
  readonly callerKey: string;
  /** Absent: Pods are not known. */
  readonly podOf?: PodFinder | undefined;
  /** ID of the program's own cluster. */
  readonly ownCluster?: string | undefined;
  readonly observer: XdsObserver;
  /** Absent if streams are not followed. */
  readonly workloadConnected?: WorkloadConnected | undefined;
  /** Wall clock and monotonic clock, ms. */
  readonly clock: { wall(): number; monotonic(): number };
  readonly closed: (stream: AdsStream<Request>) => void;
}

export class AdsStream<Request extends AnyRequest> implements PushSink {
  readonly #deps: StreamDeps<Request>;
  readonly #machine: AdsMachine<Request>;
  readonly #writer: ResponseWriter;
  readonly #limits: StreamLimits;
  readonly #connectedAtMs: number;
  readonly #unknown = new UnknownTypes();
  /** Requests that arrived before the session was ready: few, because reading is paused. */
  readonly #deferred: Request[] = [];
  #session: ProxySession | undefined;
  /** Undefined for a proxy that is not followed. */
  #workload: WorkloadStream | undefined;
  #ready = false;
  #closed = false;
  #draining = false;
  /** {@link advance} is about to be called. */
  #advancing = false;
  /** A push was deferred because an earlier response has not left for the socket. */
  #deferredPush = false;
  readonly #patience: Patience;

  constructor(deps: StreamDeps<Request>) {
    this.#deps = deps;
    this.#machine = new AdsMachine(deps.protocol);
    this.#limits = deps.limits.enter(deps.callerKey);
    this.#writer = new ResponseWriter({
      transport: deps.transport,
      frames: deps.frames,
      unsent: this.#limits.unsent,
      written: (result, frames, started) => this.#written(result, frames, started),
    });
    this.#connectedAtMs = deps.clock.wall();
    deps.demand?.begin(() => this.#advanceSoon());
    this.#patience = new Patience(this.#machine, {
      isOnDemand: () => this.#session?.onDemand !== undefined,
      defers: () => this.#deferred.length > 0,
      clustersPresumed: () => this.#session && deps.demand?.giveAskable(this.#session.content()),
      over: this.#advance,
    });
  }

  /** Processes one request. */
  receive(request: Request): void {
    if (this.#closed) return;
    try {
      if (!this.#ready || this.#deferred.length > 0 || this.#needed(request) !== undefined) this.#defer(request);
      else {
        this.#handle(request);
        this.#advanceSoon();
      }
    } catch (error) {
      this.fail(error);
    }
  }

  /** Requests that arrive together are answered together, after all of them were read. */
  #advanceSoon(): void {
    if (this.#advancing) return;
    this.#advancing = true;
    queueMicrotask(this.#advance);
  }

  /** Keeps a request until the session is ready. The first request starts the session. */
  #defer(request: Request): void {
    this.#deferred.push(request);
    this.#deps.transport.pause();
    if (this.#deferred.length > 1) return;
    const handled = this.#session === undefined ? this.#begin(request) : this.#catchUp(this.#session);
    handled.catch((error: unknown) => this.fail(error));
  }

  /** The condition that a request has to wait for before it can be answered. */
  #needed(request: Request): Promise<void> | undefined {
    return this.#session && neededFor(this.#session, this.#deps.demand, request);
  }

  /** The first request: admits and authorizes the proxy, and waits until its configuration is generated. */
  async #begin(request: Request): Promise<void> {
    const { admission, caller, callerKey, engine, extensions, observer, ownCluster, podOf, protocol } = this.#deps;
    const leave = await admission.enter();
    try {
      if (this.#closed) return;
      const node = nodeOf(request, protocol.mode, extensions);
      const authorized = caller === undefined ? node : authorizedNode(node, caller, podOf, ownCluster);
      if (node.proxyless === true) this.#machine.limitToNames();
      const type = xdsTypeOfUrl(request.typeUrl);
      const session = engine.connect(authorized, this, callerKey, type === undefined ? [] : [type]);
      this.#session = session;
      observer.connected(this.#observed, session.node);
      this.#workload = this.#deps.workloadConnected?.(
        authorized,
        connectedProxy(session, this.#machine, () => this.#content(session)),
      );
      // What an application always has leads to clusters, which its first response has to contain.
      if (session.onDemand !== undefined) await Promise.all(ALWAYS_NEEDED.map((each) => session.need(each)));
      await session.ready;
    } finally {
      leave();
    }
    if (this.#closed) return;
    this.#ready = true;
    await this.#catchUp(this.#session);
  }

  /** Processes the waiting requests, each when its type is generated, and resumes reading. */
  async #catchUp(session: ProxySession | undefined): Promise<void> {
    while (this.#deferred.length > 0) {
      const [request] = this.#deferred;
      if (request && session) await neededFor(session, this.#deps.demand, request);
      if (this.#closed || request === undefined) return;
      this.#handle(request);
      this.#deferred.shift();
    }
    this.#advance();
    this.#deps.transport.resume();
  }

  #handle(request: Request): void {
    const session = this.#session;
    if (session === undefined) return;
    const type = xdsTypeOfUrl(request.typeUrl);
    if (type === undefined) {
      if (request.typeUrl === HEALTH_TYPE) this.#workload?.health?.(request.nack);
      else if (this.#unknown.isNew(request.typeUrl))
        this.#deps.observer.unknownType(this.#observed, request.typeUrl.slice(0, 256));
      return;
    }
    const { clock, demand } = this.#deps;
    const asked = demand?.receive(type, request, askingOf(session, clock)) ?? request;
    const shown = XDS[type].confidential ? withoutSecrets(asked) : asked;
    const answer = this.#machine.receive(type, shown, this.#content(session), this.#deps.clock.wall());
    const subscribed = this.#machine.names(type);
    const names = demand?.namesOf(type, subscribed) ?? subscribed;
    this.#limits.names.hold(type, names, this.#machine.reported(type));
    if (answer.kind === 'stale') this.#deps.observer.expiredNonce(type, session.connectionId);
    else if (answer.kind === 'nack') this.#rejected(type, shown, answer, session);
    if (answer.kind === 'ack' || answer.kind === 'nack') session.answered();
  }

  /** What the proxy should have. */
  #content(session: ProxySession): Parts {
    return demandedParts(session, this.#deps.demand);
  }

  answerOf(type: XdsType, name: string): ResourceAnswer {
    return this.#session ? this.#machine.answerOf(type, name, this.#content(this.#session)) : 'outstanding';
  }

  #rejected(type: XdsType, request: Request, { quarantined }: Answer, session: ProxySession): void {
    this.#workload?.rejected?.();
    const nack = request.nack ?? '';
    this.#deps.observer.rejected(rejectedResponse(session, { ...this.#observed, type, nack, quarantined }));
  }

  /** Requests a push slot if there is something to send, else reports that the proxy is synced. */
  readonly #advance = (): void => {
    this.#advancing = false;
    const session = this.#session;
    if (session === undefined || this.#closed || this.#draining) return;
    try {
      this.#patience.watch();
      const content = this.#content(session);
      const types = this.#machine.typesToSend(content);
      if (types.length > 0) session.request(types);
      else this.#reportSynced(session, content);
    } catch (error) {
      this.fail(error);
    }
  };

  #reportSynced(session: ProxySession, content: Parts): void {
    if (this.#machine.active && this.#machine.complete(content)) session.synced(session.version());
  }

  /**
   * A response waits until the previous one has been written, and includes changes that happen meanwhile. It does not
   * occupy a slot of the queue while it waits.
   */
  push(_push: Push): PushOutcome | Promise<PushOutcome> {
    const session = this.#session;
    if (this.#closed || this.#draining) return 'closed';
    if (session === undefined || !this.#ready) return 'nothing';
    if (this.#writer.busy) {
      this.#deferredPush = true;
      return 'deferred';
    }
    const { unsent } = this.#limits;
    if (unsent.mayWrite) return this.#send(session);
    unsent.wait(this.#advance, session.begun);
    return 'deferred';
  }

  /** Does not throw or reject. */
  #send(session: ProxySession): PushOutcome | Promise<PushOutcome> {
    try {
      const started = this.#deps.clock.monotonic();
      const content = this.#content(session);
      const { messages, waiting } = this.#machine.push(content, session.version());
      this.#deps.frames.sends(content);
      this.#deps.demand?.answers.sent(messages);
      if (messages.length > 0) return this.#writer.write(messages, started);
      if (!waiting) this.#reportSynced(session, content);
      return waiting ? 'deferred' : 'nothing';
    } catch (error) {
      this.fail(error);
      return 'closed';
    }
  }

  /** Responses have left for the socket, or cannot. */
  #written(result: SendResult, frames: readonly WrittenFrame[], started: number): PushOutcome {
    const { clock, observer, transport } = this.#deps;
    const connectionId = this.#session?.connectionId ?? '';
    try {
      if (result === 'timeout') {
        observer.writeTimeout(this.#observed);
        transport.abort();
        this.close();
      }
      if (result !== 'drained') {
        for (const { type } of frames) observer.sendFailed(type, result === 'timeout' ? 'timeout' : 'send');
        return 'closed';
      }
      const seconds = (clock.monotonic() - started) / 1000;
      for (const frame of frames) {
        this.#machine.countBytes(frame.type, frame.bytes);
        observer.pushed({ ...frame, connectionId, seconds });
      }
      this.#deps.demand?.written(clock.monotonic());
      if (this.#deferredPush || this.#machine.answersLate) this.#advanceSoon();
      else this.#patience.watch();
      this.#deferredPush = false;
      return 'sent';
    } catch (error) {
      this.fail(error);
      return 'closed';
    }
  }

  /** Ends the stream with an error. The proxy is sent its message unless the error is internal. */
  fail(error: unknown): void {
    if (this.#closed) return;
    const { caller, observer, transport } = this.#deps;
    if (error instanceof CtlError && error.code !== 'internal') {
      observer.refused(transport.peer, error);
      transport.fail(error);
      // A connection keeps its certificate: to present another one, the proxy needs a new connection.
      if (error.code === 'permission_denied' && caller?.by === 'certificate') transport.retireConnection();
    } else {
      observer.internalError(error, this.#session?.connectionId ?? transport.peer);
      transport.fail(new CtlError('internal', 'internal error', {}, error));
    }
    this.close();
  }

  /** As `drain`, and the proxy needs another connection, perhaps to another replica. */
  retire(reason: CtlError): Promise<void> {
    this.#deps.transport.retireConnection();
    return this.drain(reason);
  }

  /** Writes the outstanding responses, then ends the stream so that the proxy reconnects. */
  async drain(reason: CtlError): Promise<void> {
    this.#draining = true;
    await this.#writer.idle();
    if (this.#closed) return;
    this.#deps.transport.fail(reason);
    this.close();
  }

  /** The stream is over, whichever side ended it. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#patience.stop();
    this.#limits.unsent.leave(this.#advance);
    this.#limits.names.leave();
    this.#deps.demand?.end();
    const session = this.#session;
    if (session !== undefined) {
      session.close();
      this.#deps.observer.disconnected(this.#observed);
      this.#workload?.disconnected();
    }
    this.#deps.closed(this);
  }

  get #observed(): ObservedStream {
    return { connectionId: this.#session?.connectionId ?? '', caller: this.#deps.callerKey };
  }

  /** Node of the proxy; undefined before it was accepted. */
  get node(): ProxyNode | undefined {
    return this.#session?.node;
  }

  /** Adds the number of the proxy's quarantined resources to each type's count. */
  countQuarantined(counts: Record<XdsType, number>): void {
    this.#machine.countQuarantined(counts);
  }

  /** What a proxy on demand holds; undefined for one that gets everything. */
  held(): HeldContent | undefined {
    const session = this.#session;
    return session && explainedParts(session, this.#deps.demand);
  }

  get demandCount(): DemandCount | undefined {
    return this.#session && demandCountOf(this.#session, this.#deps.demand);
  }

  get connectionId(): string | undefined {
    return this.#session?.connectionId;
  }

  /** For the debug interface; undefined before the node was accepted. */
  status(): ConnectionStatus | undefined {
    const session = this.#session;
    if (session === undefined) return undefined;
    const onDemand = this.#deps.demand?.status(session.content(), session.onDemand);
    return {
      connectionId: session.connectionId,
      node: session.node,
      peer: this.#deps.transport.peer,
      mode: this.#deps.protocol.mode,
      connectedAtMs: this.#connectedAtMs,
      ...(onDemand !== undefined && { onDemand }),
      types: this.#machine.status(this.#content(session)),
    };
  }
}
