/**
 * The certificate of the control plane's own addresses: from files, from the mesh CA, or from a signer of the cluster.
 */
import { X509Certificate } from 'node:crypto';
import { CtlError } from '../../core/errors.ts';
import type { Identity } from '../../core/identity.ts';
import type { Closers } from '../../core/process/closers.ts';
import { pemBlocks } from '../../core/tls/pem.ts';
import { wallClock } from '../../core/wall-clock.ts';
import { getScope } from '../../logging/index.ts';
import {
  type Authority,
  followServingCertificate,
  MeshServerCredentials,
  readRoots,
  type ServingCertificateOptions,
  type TrustBundles,
} from '../../security/index.ts';
import type { DiscoverySettings } from '../../settings/index.ts';
import type { Cluster } from '../clusters/cluster.ts';
import { revisionSuffix } from '../process/revision.ts';
import { openClusterSigner, signerOf } from './cluster-certificate.ts';
import type { TlsFiles, TlsMaterial } from './tls-files.ts';

/** PEM: the chain with the leaf first, and the key of the leaf. */
export interface CertificatePair {
  readonly chain: string;
  readonly key: string;
}

/** The certificate, for servers other than the secure gRPC address, and the CAs by which their clients verify it. */
export interface OwnCertificate {
  pair(): CertificatePair;
  /** PEM certificates, both roots while one replaces the other; undefined: they are not known. */
  caBundle(): string | undefined;
  /** Calls `listener` after each change of either. Returns a function that stops this. */
  onChange(listener: () => void): () => void;
}

class ChangingCertificate implements OwnCertificate {
  readonly #listeners = new Set<() => void>();
  readonly #bundleOf: (pair: CertificatePair) => string | undefined;
  #pair: CertificatePair;

  /** @param bundleOf the CAs for a certificate */
  constructor(pair: CertificatePair, bundleOf: (pair: CertificatePair) => string | undefined) {
    this.#pair = pair;
    this.#bundleOf = bundleOf;
  }

  pair(): CertificatePair {
    return this.#pair;
  }

  caBundle(): string | undefined {
    return this.#bundleOf(this.#pair);
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  changed(pair: CertificatePair = this.#pair): void {
    this.#pair = pair;
    for (const listener of this.#listeners) listener();
  }
}

/**
 * The CA of a chain: its last certificate when that is self-signed, else those of the candidates that have signed the
 * last; undefined when none has.
 * @param chain PEM, leaf first
 * @param candidates PEM certificates
 */
export function issuersOf(chain: string, candidates: string | undefined): string | undefined {
  const last = pemBlocks(chain, 'CERTIFICATE').at(-1);
  if (last === undefined) return undefined;
  const certificate = new X509Certificate(last);
  const isIssuer = (pem: string): boolean => {
    const issuer = new X509Certificate(pem);
    return certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey);
  };
  if (isIssuer(last)) return last;
  const issuers = pemBlocks(candidates ?? '', 'CERTIFICATE').filter(isIssuer);
  return issuers.length === 0 ? undefined : issuers.join('');
}

/** The names by which proxies on this machine reach the control plane. */
const LOOPBACK_NAMES = ['localhost', '127.0.0.1', '::1'];

/** The names by which proxies of other machines and the API server reach the control plane. */
export function dnsNamesOf({ namespace, revision, domain, meshdCustomHost }: DiscoverySettings): string[] {
  const suffix = revisionSuffix(revision);
  // Also without a suffix: it is the default address of the control plane in agents.
  const names = ['meshd', 'ctl-discovery'].flatMap((name) => [name, `${name}${suffix}`]);
  const services = names.flatMap((name) => [
    `${name}.${namespace}.svc`,
    `${name}.${namespace}.svc.${domain}`,
    `${name}.${namespace}`,
  ]);
  const custom = meshdCustomHost.split(',').map((host) => host.trim());
  return [...new Set([...services, ...custom].filter((name) => name !== ''))];
}

/** The service account of the control plane's own deployment. */
const SERVICE_ACCOUNT = 'ctl-discovery';

/** Who this control plane is for others, which it reads documents from. */
function ownIdentity({ trustDomain, settings }: CertificateInputs): Identity {
  return { trustDomain, namespace: settings.namespace, serviceAccount: SERVICE_ACCOUNT };
}

/** The inputs for opening the certificate. */
export interface CertificateInputs {
  readonly settings: DiscoverySettings;
  readonly trustDomain: string;
  /** The cluster that is read; undefined: none. */
  readonly cluster: Cluster | undefined;
  readonly files: TlsFiles | undefined;
  readonly authority: Authority | undefined;
  readonly trust: TrustBundles;
  readonly closers: Closers;
}

export interface OpenedCertificate {
  /** The credentials of the secure gRPC address. */
  readonly credentials: MeshServerCredentials;
  readonly own: OwnCertificate;
}

function logRenewed(): void {
  getScope('ads').info('new connections to the secure gRPC address use the new certificate');
}

function logFailed(error: CtlError): void {
  getScope('ads').error(`${error.oneLine()}; the last good certificate remains in use`);
}

/** The certificate from files, from the mesh CA or from a signer of the cluster; undefined without any of them. */
export function openCertificate(inputs: CertificateInputs): Promise<OpenedCertificate | undefined> {
  const { files } = inputs;
  return files === undefined ? openIssued(inputs) : Promise.resolve(openFiles(inputs, files));
}

function openFiles({ settings, trustDomain, trust, closers }: CertificateInputs, files: TlsFiles): OpenedCertificate {
  // Without authentication of streams, --caCertFile can only require that clients have a certificate of this CA.
  const tlsOf = ({ cert, key, ca }: TlsMaterial) => ({
    chain: cert,
    key,
    requiredCa: settings.xdsAuth ? undefined : ca,
  });
  const trustCa = ({ ca }: TlsMaterial): void =>
    trust.set(trustDomain, '--caCertFile', ca === undefined ? [] : readRoots('--caCertFile', [ca]));
  let current = files.material;
  const credentials = new MeshServerCredentials(tlsOf(current), () => wallClock.now());
  const own = new ChangingCertificate(tlsOf(current), ({ chain }) => issuersOf(chain, current.ca));
  trustCa(current);
  const renewed = (material: TlsMaterial): void => {
    current = material;
    trustCa(material);
    credentials.renew(tlsOf(material));
    own.changed(tlsOf(material));
    logRenewed();
  };
  closers.add(files.follow(renewed, logFailed));
  return { credentials, own };
}

async function openIssued(inputs: CertificateInputs): Promise<OpenedCertificate | undefined> {
  const { settings, closers } = inputs;
  const issuer = await issuerOf(inputs);
  if (issuer === undefined) return undefined;
  const tlsOf = ({ chain, key }: CertificatePair) => ({ chain, key, requiredCa: undefined });
  let opened: { readonly credentials: MeshServerCredentials; readonly own: ChangingCertificate } | undefined;
  const serving = await followServingCertificate({
    authority: issuer.authority,
    dnsNames: issuer.dnsNames,
    identity: ownIdentity(inputs),
    lifetimeSeconds: settings.defaultWorkloadCertLifetimeSeconds,
    clock: wallClock,
    random: Math.random,
    onCertificate: (certificate) => {
      opened?.credentials.renew(tlsOf(certificate));
      opened?.own.changed(certificate);
      logRenewed();
    },
    onProblem: logFailed,
  });
  closers.use(serving);
  const credentials = new MeshServerCredentials(tlsOf(serving.first), () => wallClock.now());
  const own = new ChangingCertificate(serving.first, issuer.bundleOf);
  closers.add(issuer.authority.onChange(() => own.changed()));
  opened = { credentials, own };
  return opened;
}

/** Who issues the certificate, and by which CAs clients verify it. */
interface Issuer extends Pick<ServingCertificateOptions, 'authority' | 'dnsNames'> {
  bundleOf(pair: CertificatePair): string | undefined;
}

/** Undefined when no authority issues the certificate. */
async function issuerOf({ settings, cluster, authority, closers }: CertificateInputs): Promise<Issuer | undefined> {
  const signerName = signerOf(settings.certProvider);
  if (signerName !== undefined && cluster !== undefined) {
    const signer = openClusterSigner(cluster, signerName, settings.namespace);
    closers.use(signer);
    // The signer may be one that signs with the CA of the cluster.
    const candidates = await cluster.certificateAuthority();
    return { authority: signer, dnsNames: dnsNamesOf(settings), bundleOf: ({ chain }) => issuersOf(chain, candidates) };
  }
  if (authority === undefined) {
    const missing =
      'without a CA server (ENABLE_CA_SERVER=false) they need --tlsCertFile and --tlsKeyFile, or ' +
      'CTL_CERT_PROVIDER=meshd';
    getScope('ads').warn(
      `the secure gRPC address ${settings.secureGRPCAddr} and the webhooks are not served: ${missing}`,
    );
    return undefined;
  }
  if (settings.certProvider === 'none') {
    const message = 'requires --tlsCertFile and --tlsKeyFile, which the certificate authority needs';
    throw new CtlError('invalid_argument', message, { field: 'CTL_CERT_PROVIDER=none' });
  }
  const dnsNames = [...dnsNamesOf(settings), ...LOOPBACK_NAMES];
  return { authority, dnsNames, bundleOf: () => authority.trustBundle().join('') };
}
