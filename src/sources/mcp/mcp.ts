/** A source of configuration at an address of `configSources`: over MCP, or over xDS. */
import type { Clock } from '../../core/clock.ts';
import type { Log } from '../../core/log.ts';
import { BY_COLLECTION, BY_XDS_TYPE } from '../../mcp/index.ts';
import type { ClientTlsSettings, DocumentLimits } from '../../resources/index.ts';
import type { Source } from '../source.ts';
import { createConfigSource } from './config-source.ts';
import { McpSink } from './mcp-sink.ts';
import { createPeerTls, type MeshCertificate } from './peer-tls.ts';
import { ReceivedDocuments } from './received.ts';
import { XdsConfig } from './xds-config.ts';

export interface PeerSourceOptions {
  /** Of the source, for messages: the address of the mesh configuration. */
  readonly id: string;
  readonly cluster: string;
  readonly protocol: 'mcp' | 'xds';
  readonly host: string;
  readonly port: number;
  readonly tls: ClientTlsSettings | undefined;
  /** The certificate of this control plane, for the mode MESH_MUTUAL. */
  readonly certificate: Promise<MeshCertificate | undefined>;
  /** Namespace of this control plane. */
  readonly namespace: string;
  /** Whether MCP is asked for changes only (CTL_ENABLE_INCREMENTAL_MCP). */
  readonly incremental: boolean;
  /** Of messages, and of the windows of HTTP/2 (`--mcp…`), bytes. */
  readonly maxMessageBytes: number;
  readonly streamWindow: number;
  readonly connectionWindow: number;
  /** How long nothing may arrive before the server is pinged, and the wait for its answer, ms. */
  readonly keepaliveMs: number;
  readonly keepaliveTimeoutMs: number;
  readonly limits: DocumentLimits;
  /** Maximum memory of the source's documents, bytes. */
  readonly maxBytes: number;
  readonly onReconnect: () => void;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Log;
}

const CONNECT_TIMEOUT_MS = 10_000;

export function createPeerSource(options: PeerSourceOptions): Source {
  const { id, cluster, host, port, protocol, namespace, incremental, limits, maxBytes, clock, tls } = options;
  const isXds = protocol === 'xds';
  const groups = isXds ? BY_XDS_TYPE : BY_COLLECTION;
  const documents = new ReceivedDocuments({ source: id, limits, maxBytes, groups, now: clock.now });
  // Servers read the id of a node as that of a proxy.
  const node = `sidecar~127.0.0.1~ctl-discovery.${namespace}~${namespace}.svc.cluster.local`;
  const { certificate, maxMessageBytes, streamWindow, connectionWindow, onReconnect, random, log } = options;
  const { keepaliveMs, keepaliveTimeoutMs } = options;
  return createConfigSource({
    id,
    cluster,
    host,
    port,
    protocol: isXds ? new XdsConfig({ documents, node }) : new McpSink({ documents, node, incremental }),
    stream: {
      maxMessageBytes,
      streamWindow,
      connectionWindow,
      connectTimeoutMs: CONNECT_TIMEOUT_MS,
      keepaliveMs,
      keepaliveTimeoutMs,
    },
    tls: tls === undefined ? undefined : createPeerTls({ settings: tls, host, certificate, clock }),
    onReconnect,
    clock,
    random,
    log,
  });
}
