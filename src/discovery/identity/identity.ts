/**
 * Authentication in both directions: the certificate authority, the authenticators of callers and the certificate of
 * the secure gRPC address, connected according to the settings.
 *
 *   authority ──roots──▶ trust bundles ──▶ authenticators ──▶ xDS streams, certificate service
 *       └──server certificate──▶ credentials of the secure gRPC address ◀── files
 */
import { X509Certificate } from 'node:crypto';
import { systemClock } from '../../core/clock.ts';
import { CtlError } from '../../core/errors.ts';
import { spiffeUri } from '../../core/identity.ts';
import { type Closers, startParts } from '../../core/process/closers.ts';
import { wallClock } from '../../core/wall-clock.ts';
import type { CertificateStatus } from '../../debug/index.ts';
import type { GrpcService, ListenerTls } from '../../grpc/index.ts';
import { getScope } from '../../logging/index.ts';
import type { Metrics } from '../../observe/index.ts';
import type { MeshConfig } from '../../resources/index.ts';
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
  parseBundleEndpoints,
  readRoots,
  type TokenIssuer,
  TrustBundles,
} from '../../security/index.ts';
import type { DiscoverySettings } from '../../settings/index.ts';
import type { XdsServerOptions } from '../../xds/index.ts';
import type { Cluster } from '../clusters/cluster.ts';
import { NO_REMOTES, type Remotes } from '../clusters/remote-clusters.ts';
import { modelSettings } from '../config/model-settings.ts';
import { certificateObserver } from '../pipeline/observers.ts';
import { countedFetch } from '../process/outgoing.ts';
import { publishRootCertificates, sharedAuthority } from './cluster-authority.ts';
import { checkCertProvider } from './cluster-certificate.ts';
import { type OwnCertificate, openCertificate } from './own-certificate.ts';
import { openTlsFiles, type TlsFiles } from './tls-files.ts';
import { openTokenReviewer } from './token-reviews.ts';

/** The parts of the secure gRPC address. */
export interface SecuredAddress {
  readonly tls: ListenerTls;
  readonly services: readonly GrpcService[];
  /** Undefined when streams need no credential (XDS_AUTH=false). */
  readonly authenticate: XdsServerOptions['authenticate'];
}

export interface MeshIdentity {
  /** Undefined when there is no certificate for the address. */
  readonly secured: SecuredAddress | undefined;
  /** The same certificate, for the other addresses with TLS. */
  readonly certificate: OwnCertificate | undefined;
  /** Authenticates callers like the secure gRPC address does, even without one. */
  readonly callers: Authentication;
  /** Sets the gauges. */
  sample(): void;
  /** When certificates expire, Unix ms. */
  certificates(): readonly CertificateStatus[];
  close(): Promise<void>;
}

export interface IdentityOptions {
  readonly settings: DiscoverySettings;
  /** The mesh configuration at startup: it has the trust domain and its aliases. */
  readonly mesh: MeshConfig;
  readonly metrics: Metrics;
  /** The cluster that is read; undefined: none. */
  readonly cluster: Cluster | undefined;
  /** Their tokens are accepted as well (CENTRAL_MESHD). */
  readonly remotes: Remotes;
}

interface Wiring extends Omit<IdentityOptions, 'mesh'> {
  readonly trustDomain: string;
  readonly trustDomainAliases: readonly string[];
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

/** Opens all parts. Rejects with a CtlError that names the unusable setting or file; nothing is left open then. */
export function openIdentity({ mesh, ...options }: IdentityOptions): Promise<MeshIdentity> {
  const { settings, metrics, cluster } = options;
  const { trustDomain } = modelSettings(settings, mesh);
  return startParts(getScope('default'), async (closers) => {
    const wiring: Wiring = { ...options, trustDomain, trustDomainAliases: mesh.trustDomainAliases, closers };
    checkSettings(settings, trustDomain, cluster);
    const files = await openTlsFiles(settings);
    const authority = needsAuthority(settings, files) ? await openAuthority(wiring) : undefined;
    const trust = new TrustBundles();
    const authenticators = await openAuthenticators(wiring, trust);
    const secured = await openSecured(wiring, files, authority, trust, authenticators);
    const callers = createAuthentication(authenticators, () => {});
    const certificates = () => expiries(authority, secured.certificate);
    return { ...secured, callers, certificates, sample: () => sampleExpiry(metrics, authority) };
  });
}

/**
 * Without a CA server the authority still signs the certificate of the secure gRPC address, unless files have it.
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
    // Without a CA server it signs only its own certificate: at startup, and at each renewal.
    ...(settings.enableCaServer ? {} : { threads: 0 }),
    observer: {
      csrRefused: () => metrics.ca_server_csr_parsing_err_count.inc(),
      signingFailed: () => metrics.ca_server_csr_sign_err_count.inc(),
    },
  });
  closers.use(authority);
  if (cluster !== undefined && settings.enableCaServer) {
    closers.use(publishRootCertificates(cluster, settings, authority));
  }
  return authority;
}

async function openSecured(
  wiring: Wiring,
  files: TlsFiles | undefined,
  authority: Authority | undefined,
  trust: TrustBundles,
  authenticators: readonly Authenticator[],
): Promise<Pick<MeshIdentity, 'secured' | 'certificate'>> {
  const { settings, trustDomain, metrics } = wiring;
  const opened = await openCertificate({ ...wiring, files, authority, trust });
  if (opened === undefined) return { secured: undefined, certificate: undefined };
  const { credentials, own: certificate } = opened;
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
  const secured = { tls: credentials, services, authenticate: settings.xdsAuth ? authenticate : undefined };
  return { secured, certificate };
}

/**
 * Keeps the trusted roots up to date: those of the mesh, including announced and former ones, and those of other trust
 * domains.
 */
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
    onProblem: (error) => getScope('spiffe').error(`${error.oneLine()}; the last good trust bundle remains in use`),
  });
  closers.use(bundles);
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
    closers.use(local);
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
    closers.use(oidc);
    issuers.push(oidc);
  }
  const now = wallClock.now;
  const audiences = audiencesOf(settings, trustDomain);
  const firstParty = settings.jwtPolicy === 'first-party-jwt';
  const others = settings.centralMeshd ? remotes : NO_REMOTES;
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

/** An authority's certificates are replaced by people or slowly, the server's own each day. */
const RENEW_AUTHORITY_MS = 30 * 86_400_000;
const RENEW_OWN_MS = 3_600_000;

function expiries(authority: Authority | undefined, own: OwnCertificate | undefined): CertificateStatus[] {
  const found: CertificateStatus[] = [];
  if (authority !== undefined) {
    const { chain, root } = authority.expiry();
    found.push({ name: 'root certificate', expires: root, renewMs: RENEW_AUTHORITY_MS });
    if (chain !== root) found.push({ name: 'certificate authority', expires: chain, renewMs: RENEW_AUTHORITY_MS });
  }
  if (own !== undefined) {
    const expires = Date.parse(new X509Certificate(own.pair().chain).validTo);
    found.push({ name: 'certificate of this server', expires, renewMs: RENEW_OWN_MS });
  }
  return found;
}
