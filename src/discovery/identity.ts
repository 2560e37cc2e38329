/**
 * Authentication in both directions: the certificate authority, the authenticators of callers and the certificate of
 * the secured address, connected as the settings say.
 *
 *   authority ──roots──▶ trust bundles ──▶ authenticators ──▶ xDS streams, certificate service
 *       └──server certificate──▶ credentials of the secured address ◀── files
 */
import { systemClock } from '../core/clock.ts';
import { CtlError } from '../core/errors.ts';
import { spiffeUri } from '../core/identity.ts';
import { wallClock } from '../core/wall-clock.ts';
import type { GrpcService, ListenerTls } from '../grpc/index.ts';
import { getScope } from '../logging/index.ts';
import type { Metrics } from '../observe/index.ts';
import {
  type Authentication,
  type Authenticator,
  type Authority,
  createAuthentication,
  createAuthority,
  createCertificateAuthenticator,
  createCertificateServices,
  createTokenAuthenticator,
  credentialsOfCall,
  followBundles,
  followLocalIssuer,
  followOidcIssuer,
  followServingCertificate,
  MeshServerCredentials,
  parseBundleEndpoints,
  readRoots,
  type ServingCertificateOptions,
  type TokenIssuer,
  TrustBundles,
} from '../security/index.ts';
import type { DiscoverySettings } from '../settings/index.ts';
import type { XdsServerOptions } from '../xds/index.ts';
import { Closers } from './closers.ts';
import type { Cluster } from './cluster.ts';
import { publishRootCertificates, sharedAuthority } from './cluster-authority.ts';
import { checkCertProvider, openClusterSigner, signerOf } from './cluster-certificate.ts';
import { certificateObserver } from './observers.ts';
import { countedFetch } from './outgoing.ts';
import type { RemoteClusters } from './remote-clusters.ts';
import { openTlsFiles, type TlsFiles, type TlsMaterial } from './tls-files.ts';
import { openTokenReviewer } from './token-reviews.ts';

/** The parts of the secured address. */
export interface SecuredAddress {
  readonly tls: ListenerTls;
  readonly services: readonly GrpcService[];
  /** Undefined when streams need no credential (XDS_AUTH=false). */
  readonly authenticate: XdsServerOptions['authenticate'];
}

export interface MeshIdentity {
  /** Undefined when there is no certificate for the address. */
  readonly secured: SecuredAddress | undefined;
  /** Authenticates callers like the secured address does, also without one. */
  readonly callers: Authentication;
  /** Sets the gauges. */
  sample(): void;
  close(): Promise<void>;
}

/** The trust domain of the mesh and its aliases. */
export interface TrustDomains {
  readonly trustDomain: string;
  readonly trustDomainAliases: readonly string[];
}

interface Wiring {
  readonly settings: DiscoverySettings;
  readonly trustDomain: string;
  readonly trustDomainAliases: readonly string[];
  readonly metrics: Metrics;
  /** The cluster that is read; undefined: none. */
  readonly cluster: Cluster | undefined;
  /** Other clusters; undefined: none. */
  readonly remotes: RemoteClusters | undefined;
  readonly closers: Closers;
}

/**
 * The audiences of accepted tokens without AUDIENCE: those that agents use by either name, and the trust domain, which
 * issuers for one mesh use.
 */
function audiencesOf({ audience }: DiscoverySettings, trustDomain: string): string[] {
  return audience === '' ? ['mesh-ca', 'istio-ca', trustDomain] : [audience];
}

function oneOf(field: string, value: string, allowed: readonly string[]): void {
  if (allowed.includes(value)) return;
  const message = `${JSON.stringify(value)} is not one of ${allowed.join(', ')}`;
  throw new CtlError('invalid_argument', message, { field });
}

/** Checks the settings before anything is created, so that a failed first start leaves no files. */
function checkSettings(
  { jwtPolicy, certProvider, spiffeBundleEndpoints }: DiscoverySettings,
  trustDomain: string,
  cluster: Cluster | undefined,
): void {
  oneOf('JWT_POLICY', jwtPolicy, ['third-party-jwt', 'first-party-jwt']);
  checkCertProvider(certProvider, cluster);
  parseBundleEndpoints(spiffeBundleEndpoints);
  spiffeUri({ trustDomain, namespace: 'any', serviceAccount: 'any' });
}

/** The names by which proxies on this machine reach the control plane. */
const LOOPBACK_NAMES = ['localhost', '127.0.0.1', '::1'];

/** The names by which proxies of other machines reach the control plane. */
function dnsNamesOf({ namespace, domain, meshdCustomHost }: DiscoverySettings): string[] {
  const services = ['meshd', 'ctl-discovery'].flatMap((name) => [
    `${name}.${namespace}.svc`,
    `${name}.${namespace}.svc.${domain}`,
    `${name}.${namespace}`,
  ]);
  const custom = meshdCustomHost.split(',').map((host) => host.trim());
  return [...new Set([...services, ...custom].filter((name) => name !== ''))];
}

/**
 * Opens all parts. Rejects with a CtlError that names the unusable setting or file. Then nothing is left open.
 */
export async function openIdentity(
  settings: DiscoverySettings,
  { trustDomain, trustDomainAliases }: TrustDomains,
  metrics: Metrics,
  cluster: Cluster | undefined,
  remotes: RemoteClusters | undefined,
): Promise<MeshIdentity> {
  const wiring: Wiring = {
    settings,
    trustDomain,
    trustDomainAliases,
    metrics,
    cluster,
    remotes,
    closers: new Closers(),
  };
  const close = (): Promise<void> => wiring.closers.close();
  try {
    checkSettings(settings, trustDomain, cluster);
    const files = await openTlsFiles(settings);
    const authority = needsAuthority(settings, files) ? await openAuthority(wiring) : undefined;
    const trust = new TrustBundles();
    const authenticators = await openAuthenticators(wiring, trust);
    const secured = await openSecured(wiring, files, authority, trust, authenticators);
    const callers = createAuthentication(authenticators, () => {});
    return { secured, callers, sample: () => sampleExpiry(metrics, authority), close };
  } catch (error) {
    await close();
    throw error;
  }
}

/**
 * Without a CA server the authority still signs the certificate of the secured address, unless files have it.
 */
function needsAuthority({ enableCaServer, certProvider }: DiscoverySettings, files: TlsFiles | undefined): boolean {
  return enableCaServer || (files === undefined && certProvider === 'meshd');
}

async function openAuthority({ settings, trustDomain, metrics, cluster, closers }: Wiring): Promise<Authority> {
  const authority = await createAuthority({
    settings,
    trustDomain,
    log: getScope('pkica'),
    rotationLog: getScope('rootcertrotator'),
    ...(cluster === undefined ? {} : sharedAuthority(cluster, settings)),
    // Without a CA server it signs only its own certificate: at the start, and at each renewal.
    ...(settings.enableCaServer ? {} : { threads: 0 }),
    observer: {
      csrRefused: () => metrics.ca_server_csr_parsing_err_count.inc(),
      signingFailed: () => metrics.ca_server_csr_sign_err_count.inc(),
    },
  });
  closers.add(() => authority.close());
  if (cluster !== undefined && settings.enableCaServer) {
    const published = publishRootCertificates(cluster, settings, authority);
    closers.add(() => published.close());
  }
  return authority;
}

async function openSecured(
  wiring: Wiring,
  files: TlsFiles | undefined,
  authority: Authority | undefined,
  trust: TrustBundles,
  authenticators: readonly Authenticator[],
): Promise<SecuredAddress | undefined> {
  const { settings, trustDomain, metrics } = wiring;
  const credentials = await openCredentials(wiring, files, authority, trust);
  if (credentials === undefined) return undefined;
  followTrust(wiring, trust, authority);
  const ofStreams = createAuthentication(authenticators, () => {});
  const authenticate: SecuredAddress['authenticate'] = async (call) => {
    const shown = credentialsOfCall(call);
    try {
      return shown && (await ofStreams.authenticate(shown));
    } catch (error) {
      credentials.refused(call.connection);
      throw error;
    }
  };
  const services =
    authority === undefined || !settings.enableCaServer
      ? []
      : createCertificateServices({
          authority,
          authentication: createAuthentication(authenticators, () =>
            metrics.ca_server_authentication_failure_count.inc(),
          ),
          trustDomain,
          trustDomainAliases: wiring.trustDomainAliases,
          observer: certificateObserver(metrics),
        });
  return { tls: credentials, services, authenticate: settings.xdsAuth ? authenticate : undefined };
}

/** The credentials from files, from the mesh CA or from a signer of the cluster; undefined without any of them. */
async function openCredentials(
  wiring: Wiring,
  files: TlsFiles | undefined,
  authority: Authority | undefined,
  trust: TrustBundles,
): Promise<MeshServerCredentials | undefined> {
  const { settings, trustDomain, closers } = wiring;
  const log = getScope('ads');
  const logRenewed = (): void => log.info('new connections to the secured address get the new certificate');
  const logFailed = (error: CtlError): void =>
    log.error(`${error.oneLine()}; the last good certificate stays in force`);
  if (files !== undefined) {
    // Without authentication of streams, --caCertFile can only require that clients have a certificate of this CA.
    const tlsOf = ({ cert, key, ca }: TlsMaterial) => ({
      chain: cert,
      key,
      requiredCa: settings.xdsAuth ? undefined : ca,
    });
    const trustCa = ({ ca }: TlsMaterial): void =>
      trust.set(trustDomain, '--caCertFile', ca === undefined ? [] : readRoots('--caCertFile', [ca]));
    const credentials = new MeshServerCredentials(tlsOf(files.material), () => wallClock.now());
    trustCa(files.material);
    const renewed = (material: TlsMaterial): void => {
      trustCa(material);
      credentials.renew(tlsOf(material));
      logRenewed();
    };
    closers.add(files.follow(renewed, logFailed));
    return credentials;
  }
  const issuer = servingIssuer(wiring, authority);
  if (issuer === undefined) return undefined;
  const tlsOf = ({ chain, key }: { chain: string; key: string }) => ({ chain, key, requiredCa: undefined });
  let credentials: MeshServerCredentials | undefined;
  const serving = await followServingCertificate({
    ...issuer,
    lifetimeSeconds: settings.defaultWorkloadCertLifetimeSeconds,
    clock: wallClock,
    random: Math.random,
    onCertificate: (certificate) => {
      credentials?.renew(tlsOf(certificate));
      logRenewed();
    },
    onProblem: logFailed,
  });
  closers.add(() => serving.close());
  credentials = new MeshServerCredentials(tlsOf(serving.first), () => wallClock.now());
  return credentials;
}

/** Who issues the certificate of the secured address, and for which names; undefined when nobody does. */
function servingIssuer(
  { settings, cluster, closers }: Wiring,
  authority: Authority | undefined,
): Pick<ServingCertificateOptions, 'authority' | 'dnsNames'> | undefined {
  const signerName = signerOf(settings.certProvider);
  if (signerName !== undefined && cluster !== undefined) {
    const signer = openClusterSigner(cluster, signerName, settings.namespace);
    closers.add(() => signer.close());
    return { authority: signer, dnsNames: dnsNamesOf(settings) };
  }
  if (authority === undefined) {
    const missing =
      'without a CA server (ENABLE_CA_SERVER=false) it needs --tlsCertFile and --tlsKeyFile, or ' +
      'CTL_CERT_PROVIDER=meshd';
    getScope('ads').warn(`the secured address ${settings.secureGRPCAddr} is not served: ${missing}`);
    return undefined;
  }
  if (settings.certProvider === 'none') {
    const message = 'without it the certificate authority needs --tlsCertFile and --tlsKeyFile';
    throw new CtlError('invalid_argument', message, { field: 'CTL_CERT_PROVIDER=none' });
  }
  return { authority, dnsNames: [...dnsNamesOf(settings), ...LOOPBACK_NAMES] };
}

/** Keeps the trusted roots current: those of the mesh, with announced and former ones, and of other trust domains. */
function followTrust(
  { settings, trustDomain, metrics, closers }: Wiring,
  trust: TrustBundles,
  authority: Authority | undefined,
): void {
  if (authority !== undefined) {
    const take = (): void =>
      trust.set(trustDomain, 'mesh', readRoots('certificate authority', authority.trustBundle()));
    take();
    closers.add(authority.onChange(take));
  }
  const bundles = followBundles({
    endpoints: parseBundleEndpoints(settings.spiffeBundleEndpoints),
    trust,
    fetch: countedFetch(fetch, metrics, systemClock.now),
    clock: wallClock,
    random: Math.random,
    onProblem: (error) => getScope('spiffe').error(`${error.oneLine()}; the last good one stays in force`),
  });
  closers.add(() => bundles.close());
}

async function openAuthenticators(
  { settings, trustDomain, metrics, cluster, remotes, closers }: Wiring,
  trust: TrustBundles,
): Promise<Authenticator[]> {
  const log = getScope('authn');
  const onProblem = (error: CtlError): void => log.error(`keys of a token issuer: ${error.oneLine()}`);
  const issuers: TokenIssuer[] = [];
  if (settings.localTokenIssuerDir !== '') {
    const local = followLocalIssuer({ directory: settings.localTokenIssuerDir, clock: wallClock, onProblem });
    closers.add(() => local.close());
    await local.started;
    issuers.push(local);
  }
  if (settings.tokenIssuer !== '') {
    const oidc = followOidcIssuer({
      issuer: settings.tokenIssuer,
      fetch: countedFetch(fetch, metrics, systemClock.now),
      clock: wallClock,
      random: Math.random,
      onProblem,
    });
    closers.add(() => oidc.close());
    issuers.push(oidc);
  }
  const now = wallClock.now;
  const audiences = audiencesOf(settings, trustDomain);
  const firstParty = settings.jwtPolicy === 'first-party-jwt';
  const others = settings.centralMeshd ? remotes : undefined;
  const reviewer = cluster && openTokenReviewer(cluster, { trustDomain, audiences, firstParty }, others);
  return [
    createCertificateAuthenticator({ trust, now }),
    createTokenAuthenticator({
      issuers,
      ...(reviewer && { reviewer }),
      trustDomain,
      audiences,
      withoutAudience: firstParty,
      now,
    }),
  ];
}

function sampleExpiry(metrics: Metrics, authority: Authority | undefined): void {
  if (authority === undefined) return;
  const shown = (endsMs: number): number => Math.floor(endsMs / 1000) * (endsMs > wallClock.now() ? 1 : -1);
  const { chain, root } = authority.expiry();
  metrics.ca_server_cert_chain_expiry_timestamp.set(shown(chain));
  metrics.ca_server_root_cert_expiry_timestamp.set(shown(root));
}
