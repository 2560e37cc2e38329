/**
 * Test support: proxies that ask for what they use, on streams of a server without sockets, with a whole engine. A
 * proxy has what it was sent and acknowledges it, and subscribes to endpoints and virtual hosts as Envoy does.
 */
import assert from 'node:assert/strict';
import { Memos } from '../../core/memo.ts';
import type { SidecarConfiguration } from '../../core/proxy.ts';
import { fakeClock } from '../../core/testing/fake-clock.ts';
import { byXdsType, XDS, XDS_TYPES, type XdsType, xdsTypeOfUrl } from '../../core/xds-types.ts';
import { envoy } from '../../protobuf/index.ts';
import { type Mesh, sidecar, turns } from '../../push/testing/mesh.ts';
import { clusterNamesIn } from '../on-demand/cluster-names.ts';
import { Demand, SharedDemand } from '../on-demand/index.ts';
import { DeltaProtocol, type DeltaRequest, SharedResults } from '../protocol/index.ts';
import { KnownExtensions } from '../request/known-extensions.ts';
import { ResponseFrames } from '../server/compression/stream-frames.ts';
import { Admission } from '../server/limits/admission.ts';
import { CallerLimits } from '../server/limits/caller-limits.ts';
import { AdsStream } from '../server/stream.ts';
import type { Transport } from '../server/transport.ts';
import { encodeNode, SIDECAR_ID } from './content.ts';
import { quietObserver } from './engine.ts';
import { QUIET_TRANSPORT } from './transport.ts';

const { DeltaDiscoveryResponse } = envoy.service.discovery.v3;
type Response = ReturnType<typeof DeltaDiscoveryResponse.decode>;

/** Length of what precedes a gRPC message, and where its length is. */
const PREFIX = { length: 5, at: 1 };
/** The end of the names of clusters: other strings only look like one. */
const DOMAIN = '.svc.cluster.local';
/** The route configuration of the HTTP ports of the mesh. */
const ROUTES = '80';
/** Rounds of answers until nothing changes any more. */
const MAX_ROUNDS = 50;
/** How long streams wait for requests that a proxy may not send, ms. */
const PATIENCE_MS = 1000;
/** Learned hosts are collected for as long, ms. */
const COLLECTED_MS = 1000;

/** Versions by type and name. */
export type Resources = Readonly<Record<XdsType, ReadonlyMap<string, string>>>;

const NOTHING: Resources = byXdsType(() => new Map());

/** A server of one mesh. */
export class SimulatedServer {
  readonly mesh: Mesh;
  readonly clock = fakeClock();
  readonly shared = new SharedResults(new Memos());
  readonly demand = new SharedDemand(this.shared.names, new Memos(), this.clock);
  readonly errors: unknown[] = [];
  /** Messages of all streams. */
  messages = 0;
  readonly #protocol = new DeltaProtocol(this.shared);
  readonly #extensions = new KnownExtensions(true);
  readonly #frames = new ResponseFrames().plain;
  readonly #limits = new CallerLimits();
  readonly #admission = new Admission().of('10.0.0.9', 'caller');

  readonly #tick: (ms: number) => void;

  /** @param tick moves the mocked `setTimeout` of the process */
  constructor(mesh: Mesh, tick: (ms: number) => void) {
    this.mesh = mesh;
    this.#tick = tick;
  }

  open(transport: Transport, demand: Demand, { index, configuration }: SimulatedNode): AdsStream<DeltaRequest> {
    const options = { configuration, ...(index === 0 && { http10: true as const }) };
    const made = sidecar(`10.1.0.${index + 1}`, 'shop');
    const node = { ...made, labels: { index: String(index) }, discoversVirtualHosts: true, options };
    return new AdsStream<DeltaRequest>({
      transport,
      protocol: this.#protocol,
      demand,
      extensions: this.#extensions,
      frames: this.#frames,
      limits: this.#limits,
      engine: { connect: (_node, sink, caller, types) => this.mesh.engine.connect(node, sink, caller, types) },
      admission: this.#admission,
      caller: undefined,
      callerKey: 'caller',
      observer: { ...quietObserver, internalError: (error) => this.errors.push(error) },
      clock: { wall: this.clock.now, monotonic: this.clock.now },
      closed: () => {},
    });
  }

  /** Waits until nothing is generated, pushed or answered any more, and learned hosts were told. */
  async settled(): Promise<void> {
    let before = -1;
    const isUnderWay = (): boolean =>
      before !== this.messages || this.clock.pending().length > 0 || !this.mesh.allSettled();
    for (let rounds = 0; rounds < MAX_ROUNDS && isUnderWay(); rounds++) {
      before = this.messages;
      let isSettled = false;
      const settled = this.mesh.settled().finally(() => (isSettled = true));
      for (; !isSettled; await turns(1)) this.#tick(2);
      await settled;
      await turns();
      if (before === this.messages) this.#tick(PATIENCE_MS);
      this.clock.pass(COLLECTED_MS);
      await turns();
    }
  }
}

export interface SimulatedNode {
  /** Its label `index`. The proxy with index 0 has other capabilities than all others, and so other views. */
  readonly index: number;
  readonly configuration: SidecarConfiguration;
}

export class SimulatedProxy {
  #server: SimulatedServer;
  readonly #node: SimulatedNode;
  readonly #has = byXdsType(() => new Map<string, string>());
  /** Names of virtual hosts, and of clusters. */
  readonly #asked = { vhds: new Set<string>(), cds: new Set<string>() };
  #subscribed = new Set<XdsType>();
  #endpoints = new Set<string>();
  #stream: AdsStream<DeltaRequest> | undefined;
  #demand: Demand | undefined;
  /** What it had when it connected. */
  reported = NOTHING;
  /** Names of what it was told to remove. */
  readonly lost: string[] = [];
  /** Clusters that resources led it to before it had them. */
  readonly lacking = new Set<string>();

  /** @param before the one whose names it asks for, and that had connected with the same resources */
  constructor(server: SimulatedServer, node: SimulatedNode, before?: SimulatedProxy) {
    this.#server = server;
    this.#node = node;
    for (const type of XDS_TYPES) this.#has[type] = new Map(before?.reported[type]);
    for (const type of ['vhds', 'cds'] as const)
      this.#asked[type] = new Set(before === undefined ? [] : before.#asked[type]);
    this.connect();
  }

  get has(): Resources {
    return this.#has;
  }

  /** Virtual hosts and clusters that others learn from it. */
  get used(): Iterable<string> {
    return this.#demand?.used.names ?? [];
  }

  get #clusters(): Set<string> {
    return new Set([...this.#has.cds.keys()].filter((name) => name.startsWith('outbound|')));
  }

  /** @param server the one that has taken the place of its own */
  connect(server = this.#server): void {
    this.#server = server;
    this.reported = byXdsType((type) => new Map(this.#has[type]));
    this.#demand = new Demand(this.#server.demand, () => {});
    this.#stream = this.#server.open(this.#transport(), this.#demand, this.#node);
    this.#subscribed = new Set();
    this.#first('cds', ['*', ...this.#asked.cds]);
    this.#followClusters();
    this.#first('lds', []);
    if (this.#has.lds.size > 0) this.#first('rds', [ROUTES]);
    if (this.#has.rds.size > 0) this.#first('vhds', ['*', ...this.#asked.vhds]);
  }

  /** Its next stream is for {@link connect} to open. */
  disconnect(): void {
    this.#stream?.close();
    this.#stream = undefined;
  }

  /** A request of the application needs a virtual host, or a connection a cluster. */
  ask(type: 'vhds' | 'cds', name: string): void {
    if (this.#asked[type].has(name)) return;
    this.#asked[type].add(name);
    if (this.#subscribed.has(type)) this.#send(type, { subscribe: [name] });
  }

  #first(type: XdsType, subscribe: readonly string[]): void {
    if (this.#subscribed.has(type)) return;
    this.#subscribed.add(type);
    this.#send(type, { subscribe, initial: new Map(this.#has[type]) });
  }

  #followClusters(): void {
    const [wanted, before] = [this.#clusters, this.#subscribed.has('eds') ? this.#endpoints : new Set<string>()];
    this.#endpoints = wanted;
    for (const name of [...this.#has.eds.keys()]) if (!wanted.has(name)) this.#has.eds.delete(name);
    const [subscribe, unsubscribe] = [[...wanted.difference(before)], [...before.difference(wanted)]];
    if (!this.#subscribed.has('eds') && wanted.size > 0) this.#first('eds', [...wanted]);
    else if (subscribe.length + unsubscribe.length > 0) this.#send('eds', { subscribe, unsubscribe });
  }

  #send(
    type: XdsType,
    fields: {
      readonly subscribe?: readonly string[];
      readonly unsubscribe?: readonly string[];
      readonly initial?: ReadonlyMap<string, string>;
      readonly nonce?: string;
    },
  ): void {
    const { names } = this.#server.shared;
    this.#server.messages++;
    this.#stream?.receive({
      typeUrl: XDS[type].url,
      responseNonce: fields.nonce ?? '',
      nack: undefined,
      node: encodeNode(SIDECAR_ID).subarray(),
      subscribe: names.of(fields.subscribe ?? []),
      unsubscribe: names.of(fields.unsubscribe ?? []),
      initialVersions: fields.initial ?? new Map(),
    });
  }

  /** Responses arrive in a later turn of the event loop. */
  #transport(): Transport {
    return {
      ...QUIET_TRANSPORT,
      send: (chunks, done) => {
        const [bytes, to] = [Buffer.concat(chunks), this.#stream];
        setImmediate(() => {
          done('drained');
          for (const response of responsesIn(bytes)) if (this.#stream === to) this.#take(response);
        });
      },
      fail: (error) => this.#server.errors.push(error),
      abort: () => this.#server.errors.push('aborted'),
    };
  }

  #take({ typeUrl, nonce, resources, removedResources }: Response): void {
    const type = xdsTypeOfUrl(typeUrl);
    assert.ok(type !== undefined);
    this.#server.messages++;
    for (const { name, version, resource } of resources) {
      this.#has[type].set(name, version);
      const { led } = clusterNamesIn(type === 'cds' ? Buffer.of() : (resource?.value ?? Buffer.of()));
      for (const cluster of led)
        if (type !== 'eds' && cluster.endsWith(DOMAIN) && !this.#has.cds.has(cluster)) this.lacking.add(cluster);
    }
    for (const name of removedResources) if (this.#has[type].delete(name)) this.lost.push(name);
    if (type === 'cds') this.#followClusters();
    this.#send(type, { nonce });
    if (type === 'lds') this.#first('rds', [ROUTES]);
    if (type === 'rds') this.#first('vhds', ['*', ...this.#asked.vhds]);
  }
}

function* responsesIn(frames: Buffer): Generator<Response> {
  for (let at = 0; at < frames.length; ) {
    const end = at + PREFIX.length + frames.readUInt32BE(at + PREFIX.at);
    yield DeltaDiscoveryResponse.decode(frames.subarray(at + PREFIX.length, end));
    at = end;
  }
}
