/**
 * Serves the documents in force to other control planes of the mesh: over MCP, and as configuration over xDS. Readers
 * are the control planes of the root namespace and of the namespace of this program, and who is named for it.
 */
import { systemClock } from '../../core/clock.ts';
import { CtlError, messageOf } from '../../core/errors.ts';
import { type Identity, spiffeUri } from '../../core/identity.ts';
import { getScope } from '../../logging/index.ts';
import { createMcpService, type McpService, readerIdentities, ServedDocuments } from '../../mcp/index.ts';
import type { Metrics } from '../../observe/index.ts';
import type { AnyResource, ResourceKey } from '../../resources/index.ts';
import { credentialsOfCall } from '../../security/index.ts';
import type { DiscoverySettings } from '../../settings/index.ts';
import type { ConfigServing } from '../../xds/index.ts';
import type { MeshIdentity } from '../identity/identity.ts';
import { isPeer } from '../pipeline/config-sources.ts';
import type { Intake } from '../pipeline/intake.ts';
import { limitedByPeer, refusalLog } from '../pipeline/observers.ts';

export interface DocumentServing {
  readonly service: McpService;
  readonly config: ConfigServing;
  close(): void;
}

export interface DocumentServingOptions {
  readonly settings: DiscoverySettings;
  readonly intake: Pick<Intake, 'store' | 'sources' | 'follow'>;
  readonly identity: Pick<MeshIdentity, 'callers'>;
  readonly metrics: Metrics;
  readonly rootNamespace: string;
  readonly trustDomain: string;
}

/** How long changes are collected, ms: a file with many documents is one response. */
const DELAY_MS = 10;

export function serveDocuments(options: DocumentServingOptions): DocumentServing {
  const { settings, intake, identity, metrics } = options;
  const log = getScope('mcp');
  const readers = readerIdentities({
    trustDomain: options.trustDomain,
    namespaces: [options.rootNamespace, settings.namespace],
    more: settings.configReaders,
  });
  const served = new ServedDocuments({
    read: (key) => readServed(intake, key),
    delayMs: DELAY_MS,
    clock: systemClock,
    onLeftOut: (key, why) => log.warn(`${key} is not served to other control planes: no message can carry it: ${why}`),
  });
  for (const { id } of intake.sources.all) served.changed(intake.store.documentsOf(id).keys());
  intake.follow({ changed: (keys) => served.changed(keys), changePending: () => {} });
  const rejections = limitedByPeer((message) => log.warn(message));
  const rejected = (peer: string, message: string): void =>
    rejections(peer, `${peer}: the control plane has refused documents: ${message}`);
  const refused = refusalLog('mcp');
  const service = createMcpService({
    served,
    async authorize(call) {
      const credentials = credentialsOfCall(call);
      if (credentials === undefined) {
        throw new CtlError('unimplemented', 'documents are served only on the secure gRPC address');
      }
      const caller = await identity.callers.authenticate(credentials);
      const key = readerKey(caller.identity, readers);
      const maxAgeMs = settings.keepaliveMaxServerConnectionAgeMs;
      return { key, maxStreamMs: Math.min(caller.expiresAt - Date.now(), maxAgeMs) };
    },
    maxReceiveBytes: settings.grpcMaxRecvMsgSize,
    observer: {
      clients: (count) => metrics.mesh_mcp_clients_total.set(count),
      received: (bytes) => metrics.mesh_mcp_message_sizes_bytes.observe(bytes),
      acknowledged: () => metrics.mesh_mcp_request_acks_total.inc(),
      rejected(peer, message) {
        metrics.mesh_mcp_request_nacks_total.inc();
        rejected(peer, message);
      },
      receiveFailed: () => metrics.mesh_mcp_recv_failures_total.inc(),
      sendFailed: () => metrics.mesh_mcp_send_failures_total.inc(),
      refused: (peer, error) => refused(peer, error, 'a stream of MCP'),
      internalError: (error, peer) => log.error(`${peer}: internal error: ${messageOf(error)}`),
    },
    clock: systemClock,
  });
  const authorize: ConfigServing['authorize'] = (caller) => {
    if (caller === undefined) {
      throw new CtlError('unauthenticated', 'documents are served only to callers with a credential of the mesh');
    }
    readerKey(caller.identity, readers);
  };
  return { service, config: { served, authorize, rejected }, close: () => served.close() };
}

/** The document in force, unless it was read from another control plane. */
function readServed({ store }: Pick<Intake, 'store'>, key: ResourceKey): AnyResource | undefined {
  const [document] = store.documents(key);
  return document === undefined || isPeer(document.source) ? undefined : document.resource;
}

/** The key of a reader, for limits. Throws CtlError `permission_denied` for an identity that is none. */
function readerKey(identity: Identity, readers: ReadonlySet<string>): string {
  const key = spiffeUri(identity);
  if (readers.has(key)) return key;
  const message = `documents are served only to ctl-discovery and to identities of CTL_CONFIG_READERS, not to ${key}`;
  throw new CtlError('permission_denied', message);
}
