/**
 * One ADS stream: requests go to the protocol machine, pushes come from the engine, bytes go to the transport. What is sent
 * passes through the engine's queue and so under its throttle; an ACK costs no slot.
 */
import { CtlError } from '../core/errors.ts';
import type { ProxyNode } from '../core/proxy.ts';
import type { XdsType } from '../generate/types.ts';
import type { SendResult } from '../grpc/types.ts';
import type { ConnectionStatus, PendingPush, ProxySession, PushEngine, PushOutcome, PushSink } from '../push/types.ts';
import type { Caller } from '../security/types.ts';
import type { Admission } from './admission.ts';
import { claimedNode } from './claim.ts';
import { AdsMachine, type PartsOf } from './machine.ts';
import type { KnownRun } from './message-assembly.ts';
import { parseNode } from './node.ts';
import type { XdsObserver } from './observer.ts';
import type { Protocol } from './protocol.ts';
import { RecentFrames } from './recent-frames.ts';
import { SmallWrites } from './small-writes.ts';
import type { Answer } from './subscription.ts';
import type { Transport } from './transport.ts';
import { typeOfUrl } from './type-urls.ts';

/**
 * How long to wait for requests that an Envoy sends in the same breath, and other clients may never: for the endpoints of new
 * clusters (listeners and routes wait), for all its types after a reconnect (removals wait).
 */
const REQUEST_GRACE_MS = 1000;

/** Of all streams. */
const recentFrames = new RecentFrames();
const smallWrites = new SmallWrites();

/** Unknown types noted per stream. */
const MAX_UNKNOWN_TYPES = 16;

interface Frame {
  readonly type: XdsType;
  readonly chunks: readonly Uint8Array[];
  readonly bytes: number;
}

function frameOf(type: XdsType, chunks: readonly Uint8Array[]): Frame {
  return { type, chunks, bytes: chunks.reduce((sum, chunk) => sum + chunk.length, 0) };
}

/** Where an Envoy that quotes a secret comes to its content. */
const SECRET_CONTENT = /\b(?:inline_(?:bytes|string)|private_key)\b|PRIVATE KEY/;

/** A rejection of secrets as logs and debug pages may show it. Names stand before the content. */
function withoutContent<Request extends AnyRequest>(request: Request): Request {
  const at = request.nack?.search(SECRET_CONTENT) ?? -1;
  return at < 0 ? request : { ...request, nack: `${request.nack?.slice(0, at)}…` };
}

/** What both kinds of requests have. */
export interface AnyRequest {
  readonly typeUrl: string;
  readonly nack: string | undefined;
  readonly node: Buffer | undefined;
}

export interface StreamDeps<Request extends AnyRequest> {
  readonly transport: Transport;
  readonly protocol: Protocol<Request>;
  /** Throws CtlError invalid_argument. */
  readonly decode: (bytes: Buffer, known: readonly KnownRun[]) => Request;
  readonly engine: PushEngine;
  readonly admission: Admission;
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
  readonly #connectedAtMs: number;
  readonly #unknown = new Set<string>();
  /** Requests that came before the session was ready. Reading is paused then, so that there are few. */
  readonly #early: Request[] = [];
  #session: ProxySession | undefined;
  #ready = false;
  #began = false;
  #closed = false;
  #draining = false;
  #sending: Promise<unknown> = Promise.resolve();
  /** Small frames on their way to the socket, whose push has ended. */
  #leaving: Promise<void> | undefined;
  #synced = -1;
  #grace: NodeJS.Timeout | undefined;

  constructor(deps: StreamDeps<Request>) {
    this.#deps = deps;
    this.#machine = new AdsMachine(deps.protocol);
    this.#connectedAtMs = deps.clock.wall();
  }

  readonly #partsOf: PartsOf = (type) => this.#session?.parts(type) ?? [];

  /** Takes one request off the wire: its bytes without `known`, which are some of its lists. */
  receive(bytes: Buffer, known: readonly KnownRun[]): void {
    if (this.#closed) return;
    this.#guarded(() => {
      const request = this.#deps.decode(bytes, known);
      if (this.#ready) {
        this.#handle(request);
        this.#advance();
        return;
      }
      this.#early.push(request);
      this.#deps.transport.pause();
      if (!this.#began) {
        this.#began = true;
        this.#begin(request).catch((error: unknown) => this.#fail(error));
      }
    });
  }

  /** First request: who is it, may it come in, and wait until there is something to serve. */
  async #begin(request: Request): Promise<void> {
    const { admission, caller, engine, observer, transport } = this.#deps;
    const leave = await admission.enter();
    try {
      if (this.#closed) return;
      const node = this.#nodeOf(request);
      const session = engine.connect(caller === undefined ? node : claimedNode(node, caller), this);
      this.#session = session;
      observer.connected(session.connectionId, session.node.id);
      await session.ready;
    } finally {
      leave();
    }
    if (this.#closed) return;
    this.#ready = true;
    for (const early of this.#early) this.#handle(early);
    this.#early.length = 0;
    this.#advance();
    transport.resume();
  }

  /** Virtual hosts are discovered by Delta alone: state of the world would send them all at each change. */
  #nodeOf(request: Request): ProxyNode {
    const node = parseNode(request.node);
    return this.#deps.protocol.mode === 'delta' ? node : { ...node, discoversVirtualHosts: false };
  }

  #handle(request: Request): void {
    const session = this.#session;
    if (session === undefined) return;
    const type = typeOfUrl(request.typeUrl);
    if (type === undefined) {
      this.#unknownType(request.typeUrl);
      return;
    }
    const shown = type === 'sds' ? withoutContent(request) : request;
    const answer = this.#machine.receive(type, shown, this.#partsOf, this.#deps.clock.wall());
    if (answer.kind === 'stale') this.#deps.observer.expiredNonce(type, session.connectionId);
    else if (answer.kind === 'nack') this.#rejected(type, shown, answer, session);
  }

  #rejected(type: XdsType, request: Request, answer: Answer, session: ProxySession): void {
    this.#deps.observer.rejected({
      type,
      connectionId: session.connectionId,
      nodeId: session.node.id,
      message: request.nack ?? '',
      quarantined: answer.quarantined,
    });
  }

  /** Types that we do not have are left unanswered, as if they never had content; what is no type of this API is an error. */
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
    const due = this.#machine.due(this.#partsOf);
    if (due.length > 0) session.request(due);
    else this.#tellSynced(session);
    this.#watchGrace();
  }

  #tellSynced(session: ProxySession): void {
    if (!this.#machine.active || !this.#machine.complete(this.#partsOf)) return;
    const version = session.version();
    if (version <= this.#synced) return;
    this.#synced = version;
    session.synced(version);
  }

  #watchGrace(): void {
    if (!this.#machine.awaiting) {
      clearTimeout(this.#grace);
      this.#grace = undefined;
      return;
    }
    this.#grace ??= setTimeout(() => {
      this.#grace = undefined;
      this.#machine.stopAwaiting();
      this.#advance();
    }, REQUEST_GRACE_MS).unref();
  }

  push(_pending: PendingPush): Promise<PushOutcome> {
    const session = this.#session;
    if (this.#closed || this.#draining) return Promise.resolve('closed');
    if (session === undefined || !this.#ready) return Promise.resolve('nothing');
    const outcome = this.#sendAfter(this.#sending, session);
    this.#sending = outcome;
    return outcome;
  }

  /** One after the other: two pushes of one stream may not interleave their slices. Never rejects. */
  async #sendAfter(previous: Promise<unknown>, session: ProxySession): Promise<PushOutcome> {
    try {
      await previous;
      await this.#leaving;
      return this.#closed ? 'closed' : await this.#send(session);
    } catch (error) {
      this.#fail(error);
      return 'closed';
    }
  }

  async #send(session: ProxySession): Promise<PushOutcome> {
    const { clock, transport } = this.#deps;
    const started = clock.monotonic();
    const { messages, waiting } = this.#machine.push(this.#partsOf, session.version());
    if (messages.length === 0) {
      if (!waiting) this.#tellSynced(session);
      return waiting ? 'deferred' : 'nothing';
    }
    const frames = messages.map(({ type, message }) => frameOf(type, recentFrames.encode(message)));
    const sent = new Promise<SendResult>((resolve) => {
      transport.send(
        frames.map(({ chunks }) => chunks),
        resolve,
      );
    });
    const bytes = frames.reduce((sum, frame) => sum + frame.bytes, 0);
    if (!smallWrites.admit(this.#deps.protocol.mode, bytes)) return this.#left(await sent, frames, started, session);
    this.#leaving = sent.then((result) => {
      smallWrites.left();
      this.#leaving = undefined;
      this.#guarded(() => this.#left(result, frames, started, session));
    });
    return 'sent';
  }

  /** What was sent has left for the socket, or will not. */
  #left(result: SendResult, frames: readonly Frame[], started: number, session: ProxySession): PushOutcome {
    const { clock, observer, transport } = this.#deps;
    if (result === 'timeout') {
      observer.writeTimeout(session.connectionId);
      transport.abort();
      this.close();
    }
    if (result !== 'drained') return 'closed';
    const seconds = (clock.monotonic() - started) / 1000;
    for (const { type, bytes } of frames) {
      this.#machine.countBytes(type, bytes);
      observer.pushed({ type, connectionId: session.connectionId, bytes, seconds });
    }
    return 'sent';
  }

  #guarded(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.#fail(error);
    }
  }

  #fail(error: unknown): void {
    if (this.#closed) return;
    const { caller, observer, transport } = this.#deps;
    if (error instanceof CtlError && error.code !== 'internal') {
      observer.refused(transport.peer, error);
      transport.fail(error);
      // The certificate of a connection never becomes another's: with a new one, the proxy must come on a new connection.
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
    await this.#sending;
    await this.#leaving;
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
      types: this.#machine.status(),
    };
  }
}
