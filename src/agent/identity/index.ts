/**
 * Entry point of the workload's identity: its key, certificate and trusted roots, fetched from the authority (or read
 * from files), renewed, and served to Envoy over the secret discovery service.
 *
 *   token, certificate ─▶ CA client ─▶ rotation ─┐
 *   mounted files ───────────────────▶ follower ─┼─▶ workload's secrets ─┬─▶ OUTPUT_CERTS, metrics
 *   SPIFFE Workload API ─────────────▶ follower ─┘                       ├─▶ SDS server ─▶ Envoy
 *   files, Secrets of a gateway's namespace ─────────────────────────────┘
 */
import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { sleep, systemClock } from '../../core/clock.ts';
import { CtlError, oneLineOf } from '../../core/errors.ts';
import { type Identity, spiffeUri } from '../../core/identity.ts';
import { createFailureLog } from '../../core/log.ts';
import { type WallClock, wallClock } from '../../core/wall-clock.ts';
import { getScope } from '../../logging/index.ts';
import type { AgentSettings } from '../../settings/index.ts';
import type { AgentIdentity, SecretSource, TokenSource, WorkloadSecrets } from '../types.ts';
import { type CaClient, type CaServer, createCaClient } from './ca-client.ts';
import { type CaProtocol, CLOUD_PROTOCOL, cloudMetadata, meshProtocol } from './ca-protocols.ts';
import { readCertFiles, writeCertFiles } from './cert-files.ts';
import { keyKind, newKeyAndRequest } from './csr.ts';
import { createFileSecrets } from './file-secrets.ts';
import type { GatewaySecrets } from './gateway-secrets.ts';
import { type IdentityCounters, metricsOf, newCounters } from './metrics.ts';
import { createMountedSource, MOUNTED_FOLDER } from './mounted.ts';
import { checkGraceRatio, createRotation } from './rotation.ts';
import { startSdsServer } from './sds-server.ts';
import { secretTable } from './secret-table.ts';
import { fileTokenSource, tokenFileOf } from './token.ts';
import { createWorkloadApiSource, workloadApiPath } from './workload-api.ts';

/** The settings of the workload's identity. */
export type IdentitySettings = Pick<
  AgentSettings,
  | 'caAddress'
  | 'caProvider'
  | 'spiffeEndpointSocket'
  | 'caRootsFile'
  | 'caTokenFile'
  | 'jwtPolicy'
  | 'useTokenForCsr'
  | 'skipParseToken'
  | 'eccSignatureAlgorithm'
  | 'pkcs8Key'
  | 'secretLifetimeSeconds'
  | 'secretGracePeriodRatio'
  | 'secretRotationCheckIntervalMs'
  | 'initialBackoffMs'
  | 'provCert'
  | 'outputCerts'
  | 'fileMountedCerts'
  | 'staleConnectionIntervalMs'
> &
  // Without a service account, or with an empty one, that of the token is used.
  Partial<Pick<AgentSettings, 'serviceAccount' | 'disableEnvoy'>>;

/** The mesh's roots in a volume of the pod. */
const DEFAULT_ROOTS_FILE = './var/run/secrets/mesh/root-cert.pem';

export interface AgentIdentityOptions {
  readonly identity: Identity;
  /**
   * Whether the operator has set the identity's trust domain: if so, an authority of another trust domain refuses the
   * workload.
   */
  readonly trustDomainSet: boolean;
  /**
   * CA_ADDR or the discovery address; `tls: false` is refused, because a token must not be sent in plain text. Not used
   * with mounted certificates.
   */
  readonly caServer: CaServer & { readonly tls: boolean };
  /** CLOUD_CLUSTER_URL, for an authority in a cloud. */
  readonly clusterUrl?: string | undefined;
  /** Path of the socket to create; at most 107 bytes. */
  readonly sdsPath: string;
  readonly settings: IdentitySettings;
  /**
   * The namespace whose Secrets are served as well, from the API server of this Pod. When absent, no Secrets are
   * served.
   */
  readonly gatewayNamespace?: string | undefined;
  /** Replaces the token of the file, or exchanges it for another token. */
  readonly token?: (ofFile: TokenSource) => TokenSource;
  /** Folder of FILE_MOUNTED_CERTS; default /etc/certs. */
  readonly mountedFolder?: string;
  readonly clock?: WallClock;
  /** 0 ≤ x < 1. */
  readonly random?: () => number;
}

/**
 * Starts fetching and serving secrets. Resolves as soon as the socket listens, whatever the authority's state. Rejects
 * with a CtlError of one line for invalid settings, and when the socket cannot be created.
 */
export async function startAgentIdentity(options: AgentIdentityOptions): Promise<AgentIdentity> {
  const { sdsPath, settings, clock = wallClock } = options;
  const counters = newCounters();
  // The Secrets come first, because opening them fails when there is no API server.
  const open = await gatewaySecrets(options.gatewayNamespace);
  const secrets = settings.fileMountedCerts
    ? createMountedSource(options.mountedFolder ?? MOUNTED_FOLDER, clock, getScope('secretfetcher'))
    : authoritySource(options, counters, clock);
  const server = await startSdsServer({
    path: sdsPath,
    staleIntervalMs: settings.staleConnectionIntervalMs,
    clock,
    counters,
    log: getScope('sds'),
    wanted: (name) => files.follow(name) || gateway?.follow(name) === true,
  });
  const publish = (): void => {
    const own = secrets.current();
    if (own !== undefined) server.publish(secretTable(own, [...files.current(), ...(gateway?.current() ?? [])]));
  };
  const files = createFileSecrets(clock, getScope('secretfetcher'), publish, server.isWanted);
  const gateway = open?.(publish, server.isWanted);
  secrets.onChange(publish);
  const output = writeOutput(settings, secrets, clock);
  secrets.start();
  return {
    secrets,
    sdsPath,
    missing() {
      if (secrets.current() === undefined) return 'there is no certificate yet';
      return output.isWritten() ? undefined : 'the files of OUTPUT_CERTS are not written yet';
    },
    metrics: () => metricsOf(counters, secrets.current(), clock.now()),
    async close() {
      await Promise.all([secrets.close(), files.close(), gateway?.close()]);
      await Promise.all([server.close(), output.close()]);
    },
  };
}

type OpenGatewaySecrets = (changed: () => void, isWanted: (name: string) => boolean) => GatewaySecrets;

/** Loads the Kubernetes client only when it is needed. */
async function gatewaySecrets(namespace: string | undefined): Promise<OpenGatewaySecrets | undefined> {
  if (namespace === undefined) return undefined;
  const { createGatewaySecrets, podAccess } = await import('./gateway-secrets.ts');
  const access = await podAccess(process.env);
  const shared = { namespace, access, clock: systemClock, random: Math.random, log: getScope('secretfetcher') };
  return (changed, isWanted) => createGatewaySecrets({ ...shared, changed, isWanted });
}

/**
 * The protocol of the authority that signs, or undefined for the SPIFFE Workload API, which provides keys and
 * certificates.
 */
type Provider = CaProtocol | undefined;

const ISTIO = (): Provider => meshProtocol('istio.v1.auth.IstioCertificateService');

/** By the values of CA_PROVIDER. */
const PROVIDERS: Readonly<Record<string, () => Provider>> = {
  SelfCA: () => meshProtocol('mesh.v1.auth.MeshCertificateService'),
  Istio: ISTIO,
  // Names from settings of Istio 1.7 and earlier.
  Istiod: ISTIO,
  Citadel: ISTIO,
  GoogleCA: () => CLOUD_PROTOCOL,
  MeshCA: () => CLOUD_PROTOCOL,
  SPIFFE: () => undefined,
};

/**
 * Throws CtlError invalid_argument for an unknown provider, and for a provider that needs CA_ADDR when it is not set.
 */
function providerOf(name: string, caAddress: string): Provider {
  const make = Object.hasOwn(PROVIDERS, name) ? PROVIDERS[name] : undefined;
  if (make === undefined) {
    const message = `${JSON.stringify(name)} is not one of ${Object.keys(PROVIDERS).join(', ')}`;
    throw new CtlError('invalid_argument', message, { field: 'CA_PROVIDER' });
  }
  const provider = make();
  if (provider?.external === true && caAddress === '')
    throw new CtlError('invalid_argument', `must name the authority for CA_PROVIDER=${name}`, { field: 'CA_ADDR' });
  return provider;
}

function authoritySource(options: AgentIdentityOptions, counters: IdentityCounters, clock: WallClock): SecretSource {
  const { settings, random = Math.random } = options;
  const protocol = providerOf(settings.caProvider, settings.caAddress);
  checkGraceRatio(settings.secretGracePeriodRatio);
  const kind = keyKind(settings.eccSignatureAlgorithm);
  const announced = {
    namespace: options.identity.namespace,
    serviceAccount: settings.serviceAccount || undefined,
    trustDomain: options.trustDomainSet ? options.identity.trustDomain : undefined,
  };
  const shared = { announced, initialBackoffMs: settings.initialBackoffMs, clock, random, counters };
  if (protocol === undefined) {
    const path = workloadApiPath(settings.caAddress, settings.spiffeEndpointSocket);
    return createWorkloadApiSource({ ...shared, path, log: getScope('caclient') });
  }
  return createRotation({
    ...shared,
    ca: caClient(options, protocol, counters, clock),
    newKey: () => newKeyAndRequest(kind, settings.pkcs8Key, spiffeUri(options.identity)),
    lifetimeSeconds: settings.secretLifetimeSeconds,
    graceRatio: settings.secretGracePeriodRatio,
    checkIntervalMs: settings.secretRotationCheckIntervalMs,
    log: getScope('cache'),
  });
}

function caClient(
  options: AgentIdentityOptions,
  protocol: CaProtocol,
  counters: IdentityCounters,
  clock: WallClock,
): CaClient {
  const { settings, caServer, identity } = options;
  if (!caServer.tls) {
    const address = `${caServer.host}:${caServer.port}`;
    const message = `the authority at ${address} uses plain text, in which a token must not be sent`;
    throw new CtlError('failed_precondition', message, { field: 'CA_ADDR' });
  }
  const read = (file: string): Promise<string> => readFile(file, 'utf8');
  const tokenFile = tokenFileOf(settings.jwtPolicy, settings.caTokenFile);
  const ofFile = fileTokenSource({ file: tokenFile, parse: !settings.skipParseToken, read }, () => clock.now());
  const meshRoots = protocol.external ? undefined : DEFAULT_ROOTS_FILE;
  return createCaClient({
    protocol,
    // MESHD_CUSTOM_HOST names the control plane, not an authority in a cloud.
    server: protocol.external && isIP(caServer.host) === 0 ? { ...caServer, serverName: caServer.host } : caServer,
    metadata: protocol.external ? cloudMetadata(options.clusterUrl) : {},
    trustDomain: options.trustDomainSet && !protocol.external ? identity.trustDomain : undefined,
    rootsFile: settings.caRootsFile === '' ? meshRoots : settings.caRootsFile,
    token: options.token?.(ofFile) ?? ofFile,
    tokenRequired: settings.useTokenForCsr,
    provisioned: provisionedSource(settings, clock),
    readFile: read,
    clock,
    counters,
    log: getScope('caclient'),
  });
}

/**
 * The provisioned secrets of a virtual machine, or those that an earlier run of the agent fetched with them and wrote
 * to OUTPUT_CERTS: after a restart the workload's own certificate is used even when the provisioned one has expired.
 */
function provisionedSource(settings: IdentitySettings, clock: WallClock): () => Promise<WorkloadSecrets | undefined> {
  const { provCert, outputCerts } = settings;
  if (provCert === '') return () => Promise.resolve(undefined);
  const state = createFailureLog(getScope('secretfetcher'), 'PROV_CERT cannot be used', 'PROV_CERT is usable again');
  const earlier = async (): Promise<WorkloadSecrets | undefined> =>
    outputCerts === '' || outputCerts === provCert
      ? undefined
      : readCertFiles(outputCerts, clock.now()).catch(() => undefined);
  const given = async (): Promise<WorkloadSecrets | undefined> => {
    try {
      const secrets = await readCertFiles(provCert, clock.now());
      state.succeeded();
      return secrets;
    } catch (error) {
      // A folder that the agent itself writes is empty at first.
      const isFirst = provCert === outputCerts && error instanceof CtlError && error.code === 'not_found';
      if (!isFirst) state.failed(oneLineOf(error));
      return undefined;
    }
  };
  return async () => {
    const own = await earlier();
    if (own !== undefined) return own;
    return given();
  };
}

interface Output {
  /** Whether there is nothing to write, or a set of files has been written. */
  isWritten(): boolean;
  /** Resolves when no write is in progress. */
  close(): Promise<void>;
}

/**
 * File mode of the key for applications that use an agent without Envoy: their users differ from the agent's, but are
 * in the group of its folder.
 */
const GROUP_KEY = 0o640;

/**
 * Writes new secrets to OUTPUT_CERTS, one set after the other, and again when they are deleted: a restart may need
 * them.
 */
function writeOutput(settings: IdentitySettings, secrets: SecretSource, clock: WallClock): Output {
  const { outputCerts: directory, secretRotationCheckIntervalMs, disableEnvoy = false } = settings;
  if (directory === '') return { isWritten: () => true, close: () => Promise.resolve() };
  let isWritten = false;
  const log = getScope('cache');
  const state = createFailureLog(log, 'OUTPUT_CERTS cannot be written', 'OUTPUT_CERTS can be written again');
  const ended = new AbortController();
  let writing: Promise<void> = Promise.resolve();
  const write = (changed: WorkloadSecrets): void => {
    writing = writing.then(async () => {
      try {
        await writeCertFiles(directory, changed, disableEnvoy ? GROUP_KEY : undefined);
        isWritten = true;
        state.succeeded();
      } catch (error) {
        state.failed(oneLineOf(error));
      }
    });
  };
  const keep = async (): Promise<void> => {
    while (!ended.signal.aborted) {
      await sleep(clock, secretRotationCheckIntervalMs, ended.signal);
      await writing;
      const current = secrets.current();
      if (ended.signal.aborted || current === undefined) continue;
      const deleted = await readCertFiles(directory, clock.now()).then(
        () => undefined,
        (error: unknown) => (error instanceof CtlError && error.code === 'not_found' ? error : undefined),
      );
      if (deleted === undefined || ended.signal.aborted) continue;
      log.warn(`OUTPUT_CERTS: ${deleted.oneLine()}; the files are written again`);
      write(current);
    }
  };
  const stop = secrets.onChange(write);
  const keeping = keep();
  const close = async (): Promise<void> => {
    stop();
    ended.abort();
    await keeping;
    await writing;
  };
  return { isWritten: () => isWritten, close };
}
