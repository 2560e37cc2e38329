/**
 * One simulated proxy. Like an Envoy it subscribes to clusters and listeners and to the endpoints and routes that they
 * name, acknowledges everything, and reports what it has after a reconnect. Its state consists of references to shared
 * sets.
 *
 * It subscribes to virtual hosts as Envoy 1.40 does over Delta: to all of them, in a request without names, when the
 * first route configuration with VHDS has arrived. After a reconnect it sends the same request after that for routes,
 * with the versions that it has.
 */
import type { SecureContext } from 'node:tls';
import { encodeFields } from '../../src/protobuf/wire/index.ts';
import { answerName } from '../../src/xds/on-demand/own-names.ts';
import type { Content, Mode } from '../options.ts';
import type { Body, BodyIndex } from './bodies.ts';
import { LARGE_WINDOW } from './frames.ts';
import { GrpcStream, type Security, SMALL_WINDOW } from './grpc-stream.ts';
import type { ProxyType } from './messages.ts';
import { encodeNode, sidecarNode } from './node.ts';
import { asField, deltaHead, sotwHead } from './requests.ts';
import { NameList, NO_NAMES, NOTHING, type ResourceSet } from './resource-set.ts';
import { PROXY_TYPES, type ResponseHead, ResponseReader } from './response-reader.ts';

const SERVICE = '/envoy.service.discovery.v3.AggregatedDiscoveryService';
export const DELTA_PATH = `${SERVICE}/DeltaAggregatedResources`;
const PATH: Readonly<Record<Mode, string>> = { sotw: `${SERVICE}/StreamAggregatedResources`, delta: DELTA_PATH };

const ACCEPTS_GZIP = { 'grpc-accept-encoding': 'identity,deflate,gzip' };

/** Types that a proxy subscribes to because clusters and listeners name them. */
const FOLLOWED = { cds: 'eds', lds: 'rds' } as const;

/** `error_detail` of a request: code INVALID_ARGUMENT and a message that names no resource. */
const STATUS = encodeFields([
  [1, 3],
  [2, 'rejected'],
]);
const REJECTION: Readonly<Record<Mode, Buffer>> = {
  sotw: encodeFields([[6, STATUS]]),
  delta: encodeFields([[7, STATUS]]),
};

interface TypeState {
  set: ResourceSet;
  asked: NameList;
  version: string;
  nonce: string;
}

export interface ProxyOptions {
  readonly index: number;
  readonly namespace: string;
  readonly port: number;
  /** The address that it connects from; undefined: 127.0.0.1. */
  readonly address: string | undefined;
  readonly content: Content;
  readonly bodies: BodyIndex;
  readonly small: boolean;
  /** Undefined: plain text. */
  readonly context: SecureContext | undefined;
  /** Whether it accepts compressed messages, as the XDS proxy of an agent does. */
  readonly gzip?: boolean | undefined;
  /** Names of the virtual hosts that it asks for; undefined: it gets everything. */
  readonly uses?: readonly string[] | undefined;
  /** Rejects every response. */
  readonly rejects?: boolean;
  /** A response was applied. `body` has its resources. */
  readonly received: (proxy: BenchProxy, head: ResponseHead, body: Body, bytes: number) => void;
  readonly broken: (proxy: BenchProxy, reason: string) => void;
}

function freshState(): TypeState {
  return { set: NOTHING, asked: NO_NAMES, version: '', nonce: '' };
}

export class BenchProxy {
  readonly options: ProxyOptions;
  readonly #states: Readonly<Record<ProxyType, TypeState>> = {
    cds: freshState(),
    eds: freshState(),
    lds: freshState(),
    rds: freshState(),
    vhds: freshState(),
  };
  #stream: GrpcStream | undefined;
  #discoversHosts = false;
  /** It has asked for what it uses. */
  #asks = false;
  /** The session of the last TLS connection, for resumption. */
  #session: Buffer | undefined;
  /** Sent with the first request of a stream. */
  #node: readonly Buffer[] = [];

  constructor(options: ProxyOptions) {
    this.options = options;
  }

  get connected(): boolean {
    return this.#stream !== undefined;
  }

  set(type: ProxyType): ResourceSet {
    return this.#states[type].set;
  }

  /** True when it has all endpoints and routes that its clusters and listeners name, and the virtual hosts of these. */
  get complete(): boolean {
    const { cds, eds, lds, rds, vhds } = this.#states;
    if (cds.set.map.size === 0 || lds.set.map.size === 0) return false;
    if (eds.asked !== cds.set.refs || rds.asked !== lds.set.refs) return false;
    if (this.options.uses?.some((name) => !vhds.set.map.has(answerName(name))) === true) return false;
    return eds.set.covers(eds.asked) && rds.set.covers(rds.asked) && vhds.set.refersTo(rds.set.refs);
  }

  connect(): void {
    const { index, namespace, port, address, content, bodies, small, received, broken, uses, gzip } = this.options;
    this.#node = encodeNode(sidecarNode({ index, namespace, content, onDemand: uses !== undefined }));
    const reader = new ResponseReader(bodies, (head, body, bytes) => {
      this.#take(head, body);
      received(this, head, body, bytes);
    });
    this.#stream = new GrpcStream({
      port,
      path: PATH[bodies.mode],
      address,
      metadata: gzip === true ? ACCEPTS_GZIP : undefined,
      window: small ? SMALL_WINDOW : LARGE_WINDOW,
      security: this.#security(),
      data: (piece) => reader.piece(piece),
      closed: (reason) => {
        this.#stream = undefined;
        broken(this, reason);
      },
    });
    for (const type of PROXY_TYPES) {
      const state = this.#states[type];
      state.nonce = '';
      const wildcard = type === 'cds' || type === 'lds' || (type === 'vhds' && this.#discoversHosts);
      if (wildcard || state.asked !== NO_NAMES) this.#first(type, state);
    }
  }

  #security(): Security | undefined {
    const { context } = this.options;
    if (context === undefined) return undefined;
    return { context, session: this.#session, onSession: (session) => (this.#session = session) };
  }

  disconnect(): void {
    this.#stream?.destroy();
    this.#stream = undefined;
  }

  crawl(bytesPerSecond: number): void {
    this.#stream?.crawl(bytesPerSecond);
  }

  #take(head: ResponseHead, body: Body): void {
    const { type, version, nonce, removed } = head;
    const state = this.#states[type];
    if (this.options.rejects === true) {
      state.nonce = nonce;
      this.#send([...this.#answer(type, state), REJECTION[this.options.bodies.mode]]);
      return;
    }
    const replace = this.options.bodies.mode === 'sotw' && (type === 'cds' || type === 'lds');
    state.set = state.set.after(body, removed, replace);
    state.version = version;
    state.nonce = nonce;
    if (type === 'rds') this.#discover(state.set);
    this.#send(this.#answer(type, state));
    if (type === 'vhds') this.#ask(state);
    if (type === 'cds' || type === 'lds') this.#follow(FOLLOWED[type], state.set.refs);
  }

  #answer(type: ProxyType, { version, nonce, asked }: TypeState): Buffer[] {
    return this.options.bodies.mode === 'sotw'
      ? [sotwHead(type, version, nonce), asked.encoded]
      : [deltaHead(type, nonce)];
  }

  /** Subscribes to virtual hosts once there are route configurations that leave them to discovery. */
  #discover({ refs }: ResourceSet): void {
    if (this.#discoversHosts || refs === NO_NAMES) return;
    this.#discoversHosts = true;
    this.#first('vhds', this.#states.vhds);
  }

  /** Asks for the virtual hosts that it uses, as when the application begins to call them. */
  #ask(state: TypeState): void {
    const { uses } = this.options;
    if (uses === undefined || this.#asks) return;
    this.#asks = true;
    state.asked = new NameList(uses);
    this.#send([deltaHead('vhds', ''), state.asked.encoded]);
  }

  /** Subscribes to exactly these names. */
  #follow(type: ProxyType, wanted: NameList): void {
    const state = this.#states[type];
    const before = state.asked;
    if (wanted === before) return;
    const { added, dropped, gone } = wanted.stepFrom(before);
    state.asked = wanted;
    state.set = state.set.without(gone);
    if (added.length === 0 && dropped.length === 0) return;
    if (this.options.bodies.mode === 'sotw') this.#send(this.#answer(type, state));
    else this.#send([deltaHead(type, ''), added, dropped]);
  }

  /** The first request of a type on a stream, with the versions from an earlier stream. */
  #first(type: ProxyType, state: TypeState): void {
    const node = this.#node;
    this.#node = [];
    this.#send(
      this.options.bodies.mode === 'sotw'
        ? [...asField(2, node), sotwHead(type, state.version, ''), state.asked.encoded]
        : [...asField(1, node), deltaHead(type, ''), state.asked.encoded, state.set.versions],
    );
  }

  #send(chunks: readonly Buffer[]): void {
    this.#stream?.send(chunks.filter(({ length }) => length > 0));
  }
}
