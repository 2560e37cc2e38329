/**
 * A simulated proxy (not an Envoy) that speaks ADS v3, for tests with hundreds of proxies. It subscribes to CDS and LDS
 * and to the endpoints and routes that they name, acknowledges everything, and stores only names and content hashes.
 */
import { Client, type ClientDuplexStream, credentials } from '@grpc/grpc-js';
import { envoy, type google } from '../../src/protobuf/index.ts';
import { anyValue, contentHash, eachField, factsOf, type SimType } from './sim-refs.ts';

const { DiscoveryRequest, DeltaDiscoveryRequest } = envoy.service.discovery.v3;
const SERVICE = '/envoy.service.discovery.v3.AggregatedDiscoveryService';
const TYPE_URL: Readonly<Record<SimType, string>> = {
  cds: 'type.googleapis.com/envoy.config.cluster.v3.Cluster',
  eds: 'type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment',
  lds: 'type.googleapis.com/envoy.config.listener.v3.Listener',
  rds: 'type.googleapis.com/envoy.config.route.v3.RouteConfiguration',
};
const TYPES = ['cds', 'eds', 'lds', 'rds'] as const;

export interface SimProxyOptions {
  readonly port: number;
  readonly mode: 'sotw' | 'delta';
  /** `sidecar~10.0.0.1~pod-1.default~default.svc.cluster.local` */
  readonly id: string;
  readonly metadata?: Readonly<Record<string, string>>;
  /** Rejects the responses of a type with this error message. */
  readonly rejects?: Partial<Readonly<Record<SimType, string>>>;
  /** Called for each response with its resources. */
  readonly onResponse?: (type: SimType, names: readonly string[], removed: readonly string[]) => void;
}

interface TypeState {
  /** Name → identity of its content. */
  readonly has: Map<string, string>;
  readonly refs: Map<string, readonly string[]>;
  asked: ReadonlySet<string>;
  version: string;
  nonce: string;
}

interface Answer {
  readonly type: SimType;
  readonly nonce: string;
  readonly version: string;
  readonly resources: readonly Received[];
  readonly removed: readonly string[];
}

interface Received {
  readonly bytes: Uint8Array;
  /** Identifies the content: equal for equal content of one mode. */
  readonly identity: string;
  /** Delta only. */
  readonly version: string;
}

function typeOf(url: string): SimType {
  const type = TYPES.find((candidate) => TYPE_URL[candidate] === url);
  if (type === undefined) throw new Error(`unexpected type ${url}`);
  return type;
}

function readSotw(message: Buffer): Answer {
  const resources: Received[] = [];
  let [version, nonce, url] = ['', '', ''];
  eachField(message, (field, value) => {
    if (field === 1) version = value.toString();
    else if (field === 4) url = value.toString();
    else if (field === 5) nonce = value.toString();
    else if (field === 2) {
      const bytes = anyValue(value);
      resources.push({ bytes, identity: contentHash(bytes), version: '' });
    }
  });
  return { type: typeOf(url), nonce, version, resources, removed: [] };
}

function readDelta(message: Buffer): Answer {
  const resources: Received[] = [];
  const removed: string[] = [];
  let [nonce, url] = ['', ''];
  eachField(message, (field, value) => {
    if (field === 4) url = value.toString();
    else if (field === 5) nonce = value.toString();
    else if (field === 6) removed.push(value.toString());
    else if (field === 2) {
      let [version, name] = ['', ''];
      let any = value;
      eachField(value, (inner, bytes) => {
        if (inner === 1) version = bytes.toString();
        else if (inner === 2) any = bytes;
        else if (inner === 3) name = bytes.toString();
      });
      resources.push({ bytes: anyValue(any), identity: `${name}@${version}`, version });
    }
  });
  return { type: typeOf(url), nonce, version: '', resources, removed };
}

export class SimProxy {
  readonly options: SimProxyOptions;
  readonly #states = new Map<SimType, TypeState>();
  /** Delta versions of the resources that it has, for initial_resource_versions. */
  readonly #versions = new Map<SimType, Map<string, string>>();
  readonly #client: Client;
  #stream: ClientDuplexStream<Buffer, Buffer> | undefined;
  /** Messages and bytes received since the start. */
  messages = 0;
  bytes = 0;
  /** Why the stream ended, when it did. */
  ended: string | undefined;

  constructor(options: SimProxyOptions) {
    this.options = options;
    for (const type of TYPES) {
      this.#states.set(type, { has: new Map(), refs: new Map(), asked: new Set(), version: '', nonce: '' });
      this.#versions.set(type, new Map());
    }
    this.#client = new Client(`127.0.0.1:${options.port}`, credentials.createInsecure(), {
      'grpc.use_local_subchannel_pool': 1,
      'grpc.max_receive_message_length': -1,
      'grpc-node.flow_control_window': 16 * 1024 * 1024,
    });
  }

  /** Opens a stream. After a reconnect it subscribes like an Envoy that kept its configuration. */
  connect(): this {
    const method = this.options.mode === 'sotw' ? 'StreamAggregatedResources' : 'DeltaAggregatedResources';
    const raw = (message: Buffer): Buffer => message;
    const stream = this.#client.makeBidiStreamRequest(`${SERVICE}/${method}`, raw, raw);
    this.#stream = stream;
    this.ended = undefined;
    stream.on('data', (message: Buffer) => this.#receive(message));
    stream.on('error', (error: Error) => {
      if (this.#stream === stream) this.ended = error.message;
    });
    stream.on('end', () => {
      if (this.#stream === stream) this.ended ??= 'ended';
    });
    for (const type of TYPES) {
      const state = this.#state(type);
      state.nonce = '';
      const wildcard = type === 'cds' || type === 'lds';
      if (wildcard || state.asked.size > 0) this.#subscribe(type, [...state.asked], []);
    }
    return this;
  }

  /** Closes the connection without notice and keeps its configuration. */
  disconnect(): void {
    this.#stream?.cancel();
    this.#stream = undefined;
  }

  close(): void {
    this.disconnect();
    this.#client.close();
  }

  /** Name → identity of the content: its hash (SotW) or its version (Delta). */
  content(type: SimType): ReadonlyMap<string, string> {
    return this.#state(type).has;
  }

  /** The name of a cluster's endpoints, as the cluster says. */
  endpointsName(cluster: string): string {
    return this.#state('cds').refs.get(cluster)?.[0] ?? cluster;
  }

  /** True when it has every endpoint and route set that its clusters and listeners name. */
  complete(): boolean {
    const covered = (by: SimType, of: SimType): boolean =>
      [...this.#state(of).refs.values()].flat().every((name) => this.#state(by).has.has(name));
    return (
      this.content('cds').size > 0 && this.content('lds').size > 0 && covered('eds', 'cds') && covered('rds', 'lds')
    );
  }

  #state(type: SimType): TypeState {
    const state = this.#states.get(type);
    if (state === undefined) throw new Error(type);
    return state;
  }

  #receive(message: Buffer): void {
    this.messages++;
    this.bytes += message.length;
    const answer = this.options.mode === 'sotw' ? readSotw(message) : readDelta(message);
    const state = this.#state(answer.type);
    const names: string[] = [];
    for (const { bytes, identity, version } of answer.resources) {
      const { name, refs } = factsOf(answer.type, identity, bytes);
      names.push(name);
      state.has.set(name, identity);
      state.refs.set(name, refs);
      this.#versions.get(answer.type)?.set(name, version);
    }
    const wildcardSet = this.options.mode === 'sotw' && (answer.type === 'cds' || answer.type === 'lds');
    const listed = new Set(names);
    const gone = wildcardSet ? [...state.has.keys()].filter((name) => !listed.has(name)) : answer.removed;
    for (const name of gone) this.#forget(answer.type, name);
    state.version = answer.version;
    state.nonce = answer.nonce;
    this.#acknowledge(answer.type);
    this.options.onResponse?.(answer.type, names, gone);
    if (answer.type === 'cds') this.#follow('cds', 'eds');
    if (answer.type === 'lds') this.#follow('lds', 'rds');
  }

  #forget(type: SimType, name: string): void {
    const state = this.#state(type);
    state.has.delete(name);
    state.refs.delete(name);
    this.#versions.get(type)?.delete(name);
  }

  /** Subscribes to exactly the names in the resources of `of`. */
  #follow(of: SimType, type: SimType): void {
    const state = this.#state(type);
    const wanted = new Set([...this.#state(of).refs.values()].flat());
    const added = [...wanted].filter((name) => !state.asked.has(name));
    const dropped = [...state.asked].filter((name) => !wanted.has(name));
    if (added.length === 0 && dropped.length === 0) return;
    state.asked = wanted;
    for (const name of dropped) this.#forget(type, name);
    this.#subscribe(type, added, dropped);
  }

  #acknowledge(type: SimType): void {
    const { nonce, version, asked } = this.#state(type);
    const message = this.options.rejects?.[type];
    const error = message === undefined ? {} : { errorDetail: { code: 13, message } };
    this.#send(
      this.options.mode === 'sotw'
        ? DiscoveryRequest.encode({
            typeUrl: TYPE_URL[type],
            responseNonce: nonce,
            versionInfo: version,
            resourceNames: [...asked],
            ...error,
          }).finish()
        : DeltaDiscoveryRequest.encode({ typeUrl: TYPE_URL[type], responseNonce: nonce, ...error }).finish(),
    );
  }

  #subscribe(type: SimType, added: readonly string[], dropped: readonly string[]): void {
    const { nonce, version, asked } = this.#state(type);
    const node = this.#node();
    if (this.options.mode === 'sotw') {
      const request = {
        typeUrl: TYPE_URL[type],
        node,
        resourceNames: [...asked],
        versionInfo: version,
        responseNonce: nonce,
      };
      this.#send(DiscoveryRequest.encode(request).finish());
      return;
    }
    const initial = nonce === '' ? Object.fromEntries(this.#versions.get(type) ?? []) : {};
    this.#send(
      DeltaDiscoveryRequest.encode({
        typeUrl: TYPE_URL[type],
        node,
        resourceNamesSubscribe: [...added],
        resourceNamesUnsubscribe: [...dropped],
        initialResourceVersions: initial,
      }).finish(),
    );
  }

  #node(): envoy.config.core.v3.Node.Input {
    const fields: Record<string, google.protobuf.Value.Input> = {};
    for (const [key, value] of Object.entries(this.options.metadata ?? {})) fields[key] = { stringValue: value };
    return { id: this.options.id, metadata: { fields } };
  }

  #send(message: Uint8Array): void {
    this.#stream?.write(Buffer.from(message.buffer, message.byteOffset, message.byteLength));
  }
}
