/** An ADS stream of a client that requests secrets, with or without a credential. It keeps every byte it receives. */
import { Client, type ClientDuplexStream, credentials, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import { envoy } from '../../../src/protobuf/index.ts';
import { encodeDeltaRequest, encodeNode, encodeSotwRequest } from '../../../src/xds/testing/content.ts';

const { DeltaDiscoveryResponse, DiscoveryResponse } = envoy.service.discovery.v3;
const { Secret } = envoy.extensions.transport_sockets.tls.v3;
const ADS = '/envoy.service.discovery.v3.AggregatedDiscoveryService';

export const TYPE = {
  cds: 'type.googleapis.com/envoy.config.cluster.v3.Cluster',
  lds: 'type.googleapis.com/envoy.config.listener.v3.Listener',
  sds: 'type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret',
} as const;

export interface StreamOptions {
  readonly mode: 'sotw' | 'delta';
  /** Undefined: uses the address without authentication. */
  readonly token: string | undefined;
  readonly type: 'sidecar' | 'router';
  readonly namespace: string;
  readonly labels?: Readonly<Record<string, string>>;
}

/** Speaks ADS, keeps all received bytes, and acknowledges only on request. */
export class AskingStream {
  /** Every message as received. */
  readonly received: Buffer[] = [];
  /** SDS names → their private key or authorities, as text. */
  readonly secrets = new Map<string, string>();
  /** Names that were reported as removed or missing. */
  readonly removed = new Set<string>();
  readonly types = new Set<string>();
  ended: string | undefined;
  readonly #options: StreamOptions;
  readonly #opened: Promise<{ client: Client; stream: ClientDuplexStream<Buffer, Buffer> }>;
  #named = false;

  constructor(
    ports: { readonly grpc: number; readonly secure?: number },
    root: () => Promise<Buffer>,
    options: StreamOptions,
  ) {
    this.#options = options;
    this.#opened = this.#open(ports, root);
  }

  async #open(ports: { readonly grpc: number; readonly secure?: number }, root: () => Promise<Buffer>) {
    const { mode, token } = this.#options;
    const over = token === undefined ? credentials.createInsecure() : credentials.createSsl(await root());
    const port = token === undefined ? ports.grpc : ports.secure;
    const client = new Client(`localhost:${port}`, over, { 'grpc.use_local_subchannel_pool': 1 });
    const metadata = new Metadata();
    if (token !== undefined) metadata.set('authorization', `Bearer ${token}`);
    const method = mode === 'sotw' ? 'StreamAggregatedResources' : 'DeltaAggregatedResources';
    const asIs = (bytes: Buffer): Buffer => bytes;
    const stream = client.makeBidiStreamRequest(`${ADS}/${method}`, asIs, asIs, metadata);
    stream.on('data', (bytes: Buffer) => this.#take(bytes, stream));
    stream.on('error', (error: ServiceError) => {
      this.ended = `${status[error.code]}: ${error.details}`;
    });
    return { client, stream };
  }

  #take(bytes: Buffer, stream: ClientDuplexStream<Buffer, Buffer>): void {
    this.received.push(bytes);
    const { typeUrl, nonce, messages, removed } = this.#options.mode === 'sotw' ? readSotw(bytes) : readDelta(bytes);
    this.types.add(typeUrl);
    for (const name of removed) {
      this.removed.add(name);
      this.secrets.delete(name);
    }
    if (typeUrl === TYPE.sds) for (const message of messages) this.#note(message);
    // Delta only: a SotW request would have to repeat all names.
    if (this.#options.mode === 'delta') stream.write(encodeDeltaRequest({ typeUrl, nonce }));
  }

  #note(message: Uint8Array): void {
    const { name, tlsCertificate, validationContext } = Secret.decode(message);
    const source = tlsCertificate?.privateKey ?? validationContext?.trustedCa;
    this.secrets.set(name, Buffer.from(source?.inlineBytes ?? []).toString());
  }

  /** Subscribes to resources of a type by name (Delta: also `*`), claiming to have some already. */
  async ask(typeUrl: string, names: readonly string[], initial?: ReadonlyMap<string, string>): Promise<void> {
    const { stream } = await this.#opened;
    const { mode, type, namespace, labels = {} } = this.#options;
    const id = `${type}~127.0.0.9~asking.${namespace}~${namespace}.svc.cluster.local`;
    const node = this.#named ? {} : { node: encodeNode(id, { NAMESPACE: namespace, LABELS: labels }) };
    this.#named = true;
    if (mode === 'sotw') stream.write(encodeSotwRequest({ typeUrl, names, ...node }));
    else stream.write(encodeDeltaRequest({ typeUrl, subscribe: names, ...(initial && { initial }), ...node }));
  }

  /** Whether any received message contains a text. */
  holds(text: string): boolean {
    return this.received.some((bytes) => bytes.includes(text));
  }

  async close(): Promise<void> {
    const { client, stream } = await this.#opened;
    stream.cancel();
    client.close();
  }
}

interface Read {
  readonly typeUrl: string;
  readonly nonce: string;
  readonly messages: readonly Uint8Array[];
  readonly removed: readonly string[];
}

function readSotw(bytes: Buffer): Read {
  const { typeUrl, nonce, resources } = DiscoveryResponse.decode(bytes);
  return { typeUrl, nonce, messages: resources.map(({ value }) => value), removed: [] };
}

function readDelta(bytes: Buffer): Read {
  const { typeUrl, nonce, resources, removedResources } = DeltaDiscoveryResponse.decode(bytes);
  const messages = resources.flatMap(({ resource }) => (resource ? [resource.value] : []));
  return { typeUrl, nonce, messages, removed: removedResources };
}
