/**
 * The webhooks of the program: the HTTPS server, the workers that answer its requests, and the settings of injection.
 *
 *   certificate ──▶ HTTPS server ──▶ admission pool ◀── settings ◀── mesh configuration, texts of the user
 */
import { constants } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { systemClock } from '../../core/clock.ts';
import { oneLineOf } from '../../core/errors.ts';
import { type Closers, startParts } from '../../core/process/closers.ts';
import type { SourceStatus } from '../../debug/index.ts';
import { answeredRequests } from '../../http/index.ts';
import { getScope } from '../../logging/index.ts';
import type { Metrics } from '../../observe/index.ts';
import { workerUrl } from '../../paths.ts';
import type { AnyResource, MeshConfig } from '../../resources/index.ts';
import { type DiscoverySettings, parseListenAddress } from '../../settings/index.ts';
import { type CallerRank, createAdmissionPool, startWebhookServer } from '../../webhooks/index.ts';
import type { Cluster } from '../clusters/cluster.ts';
import type { MeshIdentity } from '../identity/identity.ts';
import type { OwnCertificate } from '../identity/own-certificate.ts';
import type { Listening } from '../serving/http-servers.ts';
import { InjectionSource } from './injection-source.ts';
import type { ProxyConfigTable } from './proxy-configs.ts';
import { runWebhookConfigurations } from './webhook-configurations.ts';
import { webhookObserver } from './webhook-observer.ts';

/** Injection and validation share the requests that a server answers at a time. */
const WEBHOOKS = 2;

export interface WebhookInputs {
  readonly settings: DiscoverySettings;
  readonly mesh: MeshConfig;
  readonly proxyConfigs: Pick<ProxyConfigTable, 'of'>;
  /** The namespace of documents for the whole mesh. */
  readonly rootNamespace: string;
  readonly identity: Pick<MeshIdentity, 'certificate'>;
  /** The cluster whose API server calls the webhooks; undefined if there is none. */
  readonly cluster: Cluster | undefined;
  readonly metrics: Metrics;
  readonly rankOf: (address: string) => CallerRank;
  /** A warning about what a document would do, for a dry run. Never rejects. */
  readonly effectOf: (document: AnyResource) => Promise<string | undefined>;
  /** Aborts when the program begins to stop: clients should look for another replica. */
  readonly stopping: AbortSignal;
}

export interface Webhooks {
  readonly listening: Listening;
  /** The mesh configuration has changed. */
  configure(mesh: MeshConfig): void;
  /** The settings of injection, as a source that readiness waits for. */
  status(): readonly SourceStatus[];
  /** What the user has written about injection. */
  injection(): { readonly config?: string; readonly values?: string };
  close(): Promise<void>;
}

const NO_WEBHOOKS: Webhooks = {
  listening: [],
  configure() {},
  status: () => [],
  injection: () => ({}),
  close: async () => {},
};

/**
 * Serves the webhooks where there are an address and a certificate. Resolves when the server listens. Rejects with
 * CtlError that names the flag and the address.
 */
export function startWebhooks({ identity: { certificate }, ...inputs }: WebhookInputs): Promise<Webhooks> {
  if (inputs.settings.httpsAddr === '' || certificate === undefined) return Promise.resolve(NO_WEBHOOKS);
  return startParts(getScope('default'), (closers) => serve({ ...inputs, certificate }, closers));
}

interface Serving extends Omit<WebhookInputs, 'identity'> {
  readonly certificate: OwnCertificate;
}

async function serve(serving: Serving, closers: Closers): Promise<Omit<Webhooks, 'close'>> {
  const { settings, mesh, proxyConfigs, rootNamespace, certificate, cluster, metrics, stopping } = serving;
  const { rankOf, effectOf } = serving;
  const log = getScope('default');
  const pool = createAdmissionPool({
    workerFile: fileURLToPath(workerUrl('admit')),
    onCrash: (error) => log.error(`a worker of the webhooks ended and is restarted: ${oneLineOf(error)}`),
    proxyConfigs: (namespace) => proxyConfigs.of(namespace),
    documents: {
      factor: settings.documentLimitFactor,
      servesDelegates: settings.virtualServiceDelegates,
      rootNamespace,
    },
    maxWaiting: Math.max(1, Math.floor(answeredRequests() / WEBHOOKS)),
  });
  closers.use(pool);
  const connection = cluster?.client.connection;
  const injection = closers.use(new InjectionSource({ settings, connection, mesh, pool, log, clock: systemClock }));
  injection.start();
  const address = parseListenAddress(settings.httpsAddr);
  const { port } = closers.use(
    await startWebhookServer({
      flag: '--httpsAddr',
      address,
      certificate: {
        context: () => contextOf(certificate),
        onRenew: (listener) => certificate.onChange(listener),
      },
      pool,
      observer: webhookObserver(metrics),
      rankOf,
      effectOf,
      notReady: () => {
        if (stopping.aborted) return 'stopping';
        return injection.isReady ? undefined : 'the settings of injection are being read';
      },
      warn: (line) => log.warn(line),
    }),
  );
  if (cluster !== undefined) closers.use(runWebhookConfigurations(settings, cluster, certificate, metrics));
  return {
    listening: [['webhooks over TLS', [{ host: address.host, port }]]],
    configure: (next) => injection.configure(next),
    status: () => injection.status(),
    injection: () => injection.texts(),
  };
}

function contextOf(certificate: OwnCertificate) {
  const { chain, key } = certificate.pair();
  // Renegotiation would cost the server far more than its client.
  return { cert: chain, key, minVersion: 'TLSv1.2', secureOptions: constants.SSL_OP_NO_RENEGOTIATION } as const;
}
