/** The last part of the pipeline, engine → proxies: the xDS server and the addresses that it listens on. */
import type { GrpcListener, GrpcService } from '../../grpc/index.ts';
import { getScope } from '../../logging/index.ts';
import { addressId, podAddresses, podOfProxyKey, type Snapshot } from '../../model/index.ts';
import type { Engine } from '../../push/index.ts';
import { type DiscoverySettings, parseListenAddress } from '../../settings/index.ts';
import {
  createXdsServer,
  type DebugPages,
  type KnownPod,
  type PodFinder,
  type WorkloadConnected,
  type XdsObserver,
  type XdsServer,
} from '../../xds/index.ts';
import type { MeshIdentity } from '../identity/identity.ts';
import { isExposed, plainAddresses, shownListeners } from '../process/addresses.ts';
import { maxConnections } from '../process/open-files.ts';
import type { DocumentServing } from './documents.ts';
import type { Listening } from './http-servers.ts';

export interface XdsServerParts {
  readonly settings: DiscoverySettings;
  readonly engine: Engine;
  readonly identity: MeshIdentity;
  readonly observer: XdsObserver;
  readonly followers: readonly WorkloadConnected[];
  readonly debugPages: DebugPages;
  readonly documents: DocumentServing;
  /** More services on all addresses; they authenticate their callers themselves. */
  readonly services: readonly GrpcService[];
}

/**
 * Resolves with a server that listens and does not serve yet: see `setServing`. Rejects with CtlError when an address
 * is taken.
 */
export async function startXdsServer(parts: XdsServerParts): Promise<XdsServer> {
  const { settings, engine, observer, followers, debugPages, documents } = parts;
  const { secured } = parts.identity;
  const listeners: GrpcListener[] = plainAddresses(settings.grpcAddr);
  if (secured !== undefined) {
    listeners.push({ ...parseListenAddress(settings.secureGRPCAddr), tls: secured.tls });
  }
  const server = createXdsServer({
    engine,
    shares: engine.shares,
    observer,
    listeners,
    ...(secured?.authenticate === undefined ? {} : { authenticate: secured.authenticate }),
    podOf: knownPods(engine),
    ownCluster: settings.clusterID,
    workloadConnected: followedBy(followers),
    debugPages,
    config: documents.config,
    services: [...(secured?.services ?? []), documents.service, ...parts.services],
    maxReceiveBytes: settings.grpcMaxRecvMsgSize,
    compression: settings.xdsCompression,
    maxStreams: settings.grpcMaxStreams,
    maxConnections: maxConnections(settings.grpcMaxStreams),
    keepaliveIntervalMs: settings.keepaliveIntervalMs,
    keepaliveTimeoutMs: settings.keepaliveTimeoutMs,
    maxConnectionAgeMs: settings.keepaliveMaxServerConnectionAgeMs,
  });
  await server.start();
  return server;
}

/** Several that follow the same streams. */
function followedBy(followers: readonly WorkloadConnected[]): WorkloadConnected {
  return (node, proxy) => {
    const streams = followers.flatMap((follow) => follow(node, proxy) ?? []);
    if (streams.length <= 1) return streams[0];
    return {
      health(problem) {
        for (const each of streams) each.health?.(problem);
      },
      rejected() {
        for (const each of streams) each.rejected?.();
      },
      disconnected() {
        for (const each of streams) each.disconnected();
      },
    };
  };
}

/** Logs each address, and warns when other machines can reach one without authentication. */
export function logAddresses(
  { grpcAddr, secureGRPCAddr }: DiscoverySettings,
  http: Listening,
  server: XdsServer,
  { secured }: MeshIdentity,
): void {
  const ports = server.ports();
  const plain = plainAddresses(grpcAddr).map(({ host }, index) => ({ host, port: ports[index] ?? 0 }));
  const tls = secured === undefined ? [] : [{ host: parseListenAddress(secureGRPCAddr).host, port: ports.at(-1) ?? 0 }];
  const listening = shownListeners([['xDS in plain text', plain], ['xDS over TLS', tls], ...http]);
  getScope('default').info(`listening: ${listening}`);
  if (!plain.some(isExposed)) return;
  getScope('default').warn(
    `--grpcAddr ${grpcAddr} serves the configuration of any namespace to every client that reaches it; ` +
      `proxies with credentials use ${secureGRPCAddr}`,
  );
}

/** The Pods of the newest snapshot, for the authorization of proxies. */
export function knownPods(engine: { readonly snapshot: Snapshot }): PodFinder {
  return (namespace, name, clusterId = ''): KnownPod | undefined => {
    const { snapshot } = engine;
    const pod = snapshot.resources('Pod').get(podOfProxyKey(snapshot.settings, { namespace, name, clusterId }));
    if (pod === undefined) return undefined;
    const ids = podAddresses(pod).map((address) => addressId(address) ?? address);
    return {
      serviceAccount: pod.content.spec.serviceAccountName || undefined,
      uid: pod.origin.uid,
      has: (address) => (ids.length === 0 ? undefined : ids.includes(addressId(address) ?? address)),
    };
  };
}
