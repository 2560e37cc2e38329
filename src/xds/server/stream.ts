/**
 * One ADS stream: requests go to the protocol machine, pushes come from the engine, responses go to the writer. What is
 * sent passes through the engine's queue and so under its throttle; an ACK costs no slot.
 */

import { CtlError } from '../../core/errors.ts';
import type { ProxyNode } from '../../core/proxy.ts';
import { XDS, type XdsType, xdsTypeOfUrl } from '../../core/xds-types.ts';
import type { SendResult } from '../../grpc/index.ts';
import type {
  ConnectionStatus,
  PendingPush,
  ProxySession,
  PushEngine,
  PushOutcome,
  PushSink,
} from '../../push/types.ts';
import type { Caller } from '../../security/types.ts';
import { AdsMachine, type Answer, type AnyRequest, type Variant } from '../protocol/index.ts';
import { parseNode } from '../request/index.ts';
import type { Entrance } from './admission.ts';
import { callerKey } from './caller-key.ts';
import { claimedNode } from './node-authorization.ts';
import type { XdsObserver } from './observer.ts';
import type { RecentFrames } from './recent-frames.ts';
import { ResponseWriter, type WrittenFrame } from './response-writer.ts';
import type { SmallWrites } from './small-writes.ts';
import type { Transport } from './transport.ts';
import { withClusters } from './with-clusters.ts';

/**
 * How long to wait for requests that an Envoy sends in the same breath, and other clients may never: for the endpoints
 * of new clusters (listeners and routes wait), for all its types after a reconnect (removals wait).
 */
const REQUEST_GRACE_MS = 1000;

/** Unknown types noted per stream. */
const MAX_UNKNOWN_TYPES = 16;

/** Where an Envoy that quotes a secret comes to its content. */
const SECRET_CONTENT = /\b(?:inline_(?:bytes|string)|private_key)\b|PRIVATE KEY/;

/** A rejection of secrets as logs and debug pages may show it. Names stand before the content. */
function withoutContent<Request extends AnyRequest>(request: Request): Request {
  const at = request.nack?.search(SECRET_CONTENT) ?? -1;
  return at < 0 ? request : { ...request, nack: `${request.nack?.slice(0, at)}…` };
}

export interface StreamDeps<Request extends AnyRequest> {
  readonly transport: Transport;
  readonly protocol: Variant<Request>;
  /** Of all streams of the server. */
  readonly frames: RecentFrames;
  readonly smallWrites: SmallWrites;
  readonly engine: PushEngine;
  readonly admission: Entrance;
  /** Whose stream it is; undefined on an address that does not ask. */
  readonly caller: Caller | undefined;
  readonly observer: XdsObserver;
  /** Wall clock and monotonic clock, ms. */
  readonly clock: { wall(): number; monotonic(): number };
  readonly closed: (stream: AdsStream<Request>) => void;
}

export class AdsStream<Request extends AnyRequest> implements PushSink {
  readonly #deps: StreamDeps<Request>;
  readonly #machine: AdsMachine<Request>;
  readonly #writer: ResponseWriter;
  readonly #connectedAtMs: number;
  readonly #unknown = new Set<string>();
  /** Requests that came before the session was ready. Reading is paused then, so that there are few. */
  readonly #early: Request[] = [];
  #session: ProxySession | undefined;
  #ready = false;
  #closed = false;
  #draining = false;
  /** A request is being handled; others that came with it may follow. */
  #receiving = false;
  #synced = -1;
  #grace: NodeJS.Timeout | undefined;

  constructor(deps: StreamDeps<Request>) {
    this.#deps = deps;
    this.#machine = new AdsMachine(deps.protocol);
    this.#writer = new ResponseWriter({
      transport: deps.transport,
      frames: deps.frames,
      smallWrites: deps.smallWrites,
      written: (result, frames, started) => this.#written(result, frames, started),
    });
    this.#connectedAtMs = deps.clock.wall();
  }

  /** Takes one request off the wire. */
  receive(request: Request): void {
    if (this.#closed) return;
    this.#receiving = true;
    try {
      if (!this.#ready || this.#early.length > 0 || this.#needed(request) !== undefined) this.#wait(request);
      else {
        this.#handle(request);
        this.#advance();
      }
    } catch (error) {
      this.fail(error);
    } finally {
      this.#receiving = false;
    }
  }

  /** Keeps a request until the session is ready, which the first one starts. */
  #wait(request: Request): void {
    this.#early.push(request);
    this.#deps.transport.pause();
    if (this.#early.length > 1) return;
    const going = this.#session === undefined ? this.#begin(request) : this.#catchUp(this.#session);
    going.catch((error: unknown) => this.fail(error));
  }

  /** What has to be waited for before a request can be answered. */
  #needed(request: Request): Promise<void> | undefined {
    const type = xdsTypeOfUrl(request.typeUrl);
    return type === undefined ? undefined : this.#session?.need(type);
  }

  /** First request: who is it, may it come in, and wait until there is something to serve. */
  async #begin(request: Request): Promise<void> {
    const { admission, caller, engine, observer, transport } = this.#deps;
    const leave = await admission.enter();
    try {
      if (this.#closed) return;
      const node = this.#nodeOf(request);
      const claimed = caller === undefined ? node : claimedNode(node, caller);
      const type = xdsTypeOfUrl(request.typeUrl);
      const session = engine.connect(
        claimed,
        this,
        callerKey(caller, transport.peer),
        type === undefined ? [] : [type],
      );
      this.#session = session;
      observer.connected(session.connectionId, session.node);
      await session.ready;
    } finally {
      leave();
    }
    if (this.#closed) return;
    this.#ready = true;
    await this.#catchUp(this.#session);
  }

  /** Handles the requests that wait, each when what it asks for is there, and goes on reading. */
  async #catchUp(session: ProxySession | undefined): Promise<void> {
    while (this.#early.length > 0) {
      const [request] = this.#early;
      const type = request && xdsTypeOfUrl(request.typeUrl);
      if (type !== undefined) await session?.need(type);
      if (this.#closed || request === undefined) return;
      this.#handle(request);
      this.#early.shift();
    }
    this.#advance();
    this.#deps.transport.resume();
  }

  /**
   * Virtual hosts are discovered by Delta alone: state of the world would send them all at each change. There the
   * proxy, too, names all endpoints that it asks for at each change.
   */
  #nodeOf(request: Request): ProxyNode {
    const node = parseNode(request.node);
    if (this.#deps.protocol.mode === 'delta') return node;
    return { ...node, discoversVirtualHosts: false, shortEndpointNames: true };
  }

  #handle(request: Request): void {
    const session = this.#session;
    if (session === undefined) return;
    const type = xdsTypeOfUrl(request.typeUrl);
    if (type === undefined) {
      this.#unknownType(request.typeUrl);
      return;
    }
    const shown = XDS[type].confidential ? withoutContent(request) : request;
    const answer = this.#machine.receive(type, shown, session.content(), this.#deps.clock.wall());
    if (answer.kind === 'stale') this.#deps.observer.expiredNonce(type, session.connectionId);
    else if (answer.kind === 'nack') this.#rejected(type, shown, answer, session);
  }

  #rejected(type: XdsType, request: Request, { quarantined }: Answer, session: ProxySession): void {
    this.#deps.observer.rejected({
      type,
      connectionId: session.connectionId,
      nodeId: session.node.id,
      message: request.nack ?? '',
      quarantined: type === 'eds' ? withClusters(quarantined, session.parts('cds')) : quarantined,
    });
  }

  /**
   * Types that we do not have are left unanswered, as if they never had content; what is no type of this API is an
   * error.
   */
  #unknownType(typeUrl: string): void {
    if (typeUrl === '')
      throw new CtlError('invalid_argument', 'an ADS request needs a type_url', { field: 'type_url' });
    if (!typeUrl.startsWith('type.googleapis.com/') || typeUrl.includes('/envoy.api.v2.'))
      throw new CtlError('invalid_argument', `${typeUrl.slice(0, 256)} is no xDS v3 type`, { field: 'type_url' });
    if (this.#unknown.has(typeUrl) || this.#unknown.size >= MAX_UNKNOWN_TYPES) return;
    this.#unknown.add(typeUrl);
    this.#deps.observer.unknownType(this.#session?.connectionId ?? '', typeUrl.slice(0, 256));
  }

  /** After each request: ask for a slot when there is something to send, tell when all is done. */
  #advance(): void {
    const session = this.#session;
    if (session === undefined || this.#closed || this.#draining) return;
    const due = this.#machine.typesToSend(session.content());
    if (due.length > 0) session.request(due);
    else this.#tellSynced(session);
    this.#watchGrace();
  }

  #tellSynced(session: ProxySession): void {
    if (!this.#machine.active || !this.#machine.complete(session.content())) return;
    const version = session.version();
    if (version <= this.#synced) return;
    this.#synced = version;
    session.synced(version);
  }

  #watchGrace(): void {
    if (!this.#machine.awaiting) {
      if (this.#grace !== undefined) clearTimeout(this.#grace);
      this.#grace = undefined;
      return;
    }
    this.#grace ??= setTimeout(() => {
      this.#grace = undefined;
      // What waits here for its generation, the proxy has sent.
      if (this.#early.length === 0) this.#machine.stopAwaiting();
      this.#advance();
    }, REQUEST_GRACE_MS).unref();
  }

  /**
   * Requests that came together are answered together: a push that one of them asked for waits until the others were
   * read.
   */
  push(_pending: PendingPush): PushOutcome | Promise<PushOutcome> {
    const session = this.#session;
    if (this.#closed || this.#draining) return 'closed';
    if (session === undefined || !this.#ready) return 'nothing';
    if (!this.#receiving && !this.#writer.busy) return this.#send(session);
    return this.#writer.afterOthers(() => (this.#closed ? 'closed' : this.#send(session)));
  }

  /** Never throws or rejects. */
  #send(session: ProxySession): PushOutcome | Promise<PushOutcome> {
    try {
      const started = this.#deps.clock.monotonic();
      const { messages, waiting } = this.#machine.push(session.content(), session.version());
      if (messages.length > 0) return this.#writer.write(messages, started);
      if (!waiting) this.#tellSynced(session);
      return waiting ? 'deferred' : 'nothing';
    } catch (error) {
      this.fail(error);
      return 'closed';
    }
  }

  /** What was sent has left for the socket, or will not. */
  #written(result: SendResult, frames: readonly WrittenFrame[], started: number): PushOutcome {
    const { clock, observer, transport } = this.#deps;
    const connectionId = this.#session?.connectionId ?? '';
    try {
      if (result === 'timeout') {
        observer.writeTimeout(connectionId);
        transport.abort();
        this.close();
      }
      if (result !== 'drained') {
        for (const { type } of frames) observer.sendFailed(type);
        return 'closed';
      }
      const seconds = (clock.monotonic() - started) / 1000;
      for (const { type, bytes } of frames) {
        this.#machine.countBytes(type, bytes);
        observer.pushed({ type, connectionId, bytes, seconds });
      }
      return 'sent';
    } catch (error) {
      this.fail(error);
      return 'closed';
    }
  }

  /** Ends the stream for an error, which the proxy is told unless it is internal. */
  fail(error: unknown): void {
    if (this.#closed) return;
    const { caller, observer, transport } = this.#deps;
    if (error instanceof CtlError && error.code !== 'internal') {
      observer.refused(transport.peer, error);
      transport.fail(error);
      // The certificate of a connection never becomes another's: with a new one, the proxy must come on a new
      // connection.
      if (error.code === 'permission_denied' && caller?.by === 'certificate') transport.retireConnection();
    } else {
      observer.internalError(error, this.#session?.connectionId ?? transport.peer);
      transport.fail(new CtlError('internal', 'internal error', {}, error));
    }
    this.close();
  }

  /** Lets what is being written go out, then ends the stream so that the proxy connects anew. */
  async drain(reason: CtlError): Promise<void> {
    this.#draining = true;
    await this.#writer.idle();
    if (this.#closed) return;
    this.#deps.transport.fail(reason);
    this.close();
  }

  /** The stream is over, whoever ended it. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    clearTimeout(this.#grace);
    const session = this.#session;
    if (session !== undefined) {
      session.close();
      this.#deps.observer.disconnected(session.connectionId);
    }
    this.#deps.closed(this);
  }

  /** Node of the proxy; undefined before it was accepted. */
  get node(): ProxyNode | undefined {
    return this.#session?.node;
  }

  /** Adds how many resources are kept back from the proxy, by type. */
  countQuarantined(counts: Record<XdsType, number>): void {
    this.#machine.countQuarantined(counts);
  }

  /** For the debug interface; undefined before the node was accepted. */
  status(): ConnectionStatus | undefined {
    const session = this.#session;
    if (session === undefined) return undefined;
    return {
      connectionId: session.connectionId,
      node: session.node,
      peer: this.#deps.transport.peer,
      mode: this.#deps.protocol.mode,
      connectedAtMs: this.#connectedAtMs,
      types: this.#machine.status(session.content()),
    };
  }
}
