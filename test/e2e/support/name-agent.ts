/**
 * The upstream stream of an Istio agent with DNS capture, without an Envoy: it forwards the first requests of an Envoy,
 * and after the one for listeners it subscribes to the name table with a request that has nothing but the type. It
 * acknowledges a table with version and nonce (Delta: nonce), and ignores a response without resources. Source: Istio's
 * pkg/istio-agent (xds_proxy.go and xds_proxy_delta.go), releases 1.8 and later.
 */
import { Client, type ClientDuplexStream, credentials, type ServiceError, status } from '@grpc/grpc-js';
import { XDS } from '../../../src/core/xds-types.ts';
import { envoy, istio } from '../../../src/protobuf/index.ts';
import {
  encodeDeltaRequest,
  encodeNode,
  encodeSotwRequest,
  type StructValue,
} from '../../../src/xds/testing/content.ts';

const { DeltaDiscoveryResponse, DiscoveryResponse } = envoy.service.discovery.v3;
const ADS = '/envoy.service.discovery.v3.AggregatedDiscoveryService';

export interface NameAgentOptions {
  readonly mode: 'sotw' | 'delta';
  readonly port: number;
  readonly namespace: string;
  readonly metadata: StructValue;
}

interface Response {
  readonly typeUrl: string;
  readonly nonce: string;
  readonly version: string;
  readonly messages: readonly Uint8Array[];
}

export class NameAgent {
  /** The tables that it was sent, or pieces of the table: addresses by name. */
  readonly tables: Readonly<Record<string, readonly string[]>>[] = [];
  /** Why the stream ended. */
  ended: string | undefined;
  readonly #mode: NameAgentOptions['mode'];
  readonly #client: Client;
  readonly #stream: ClientDuplexStream<Buffer, Buffer>;

  constructor({ mode, port, namespace, metadata }: NameAgentOptions) {
    this.#mode = mode;
    this.#client = new Client(`localhost:${port}`, credentials.createInsecure(), {
      'grpc.use_local_subchannel_pool': 1,
    });
    const method = mode === 'sotw' ? 'StreamAggregatedResources' : 'DeltaAggregatedResources';
    const asIs = (bytes: Buffer): Buffer => bytes;
    this.#stream = this.#client.makeBidiStreamRequest(`${ADS}/${method}`, asIs, asIs);
    this.#stream.on('data', (bytes: Buffer) => this.#receive(mode === 'sotw' ? readSotw(bytes) : readDelta(bytes)));
    this.#stream.on('error', (error: ServiceError) => {
      this.ended = `${status[error.code]}: ${error.details}`;
    });
    const id = `sidecar~127.0.0.9~app-1.${namespace}~${namespace}.svc.cluster.local`;
    this.#ask(XDS.cds.url, encodeNode(id, { NAMESPACE: namespace, ...metadata }));
    this.#ask(XDS.lds.url);
    this.#ask(XDS.nds.url);
  }

  #ask(typeUrl: string, node?: Buffer): void {
    const fields = { typeUrl, ...(node && { node }) };
    this.#stream.write(this.#mode === 'sotw' ? encodeSotwRequest(fields) : encodeDeltaRequest(fields));
  }

  #receive({ typeUrl, nonce, version, messages }: Response): void {
    if (typeUrl === XDS.nds.url) {
      if (messages.length === 0) return;
      const names = messages.flatMap((bytes) => Object.entries(istio.networking.nds.v1.NameTable.decode(bytes).table));
      this.tables.push(Object.fromEntries(names.map(([host, { ips }]) => [host, ips])));
    }
    const fields = { typeUrl, nonce };
    this.#stream.write(this.#mode === 'sotw' ? encodeSotwRequest({ ...fields, version }) : encodeDeltaRequest(fields));
  }

  close(): void {
    this.#stream.cancel();
    this.#client.close();
  }
}

function readSotw(bytes: Buffer): Response {
  const { typeUrl, nonce, versionInfo, resources } = DiscoveryResponse.decode(bytes);
  return { typeUrl, nonce, version: versionInfo, messages: resources.map(({ value }) => value) };
}

function readDelta(bytes: Buffer): Response {
  const { typeUrl, nonce, resources, systemVersionInfo } = DeltaDiscoveryResponse.decode(bytes);
  const messages = resources.flatMap(({ resource }) => (resource ? [resource.value] : []));
  return { typeUrl, nonce, version: systemVersionInfo, messages };
}
