/** Validates Gateway: ports, hosts, and TLS that fits the protocol. */
import { isDnsLabel } from '../../core/dns-names.ts';
import { shown } from '../parsing/issues.ts';
import type { GatewayServer, GatewaySpec } from '../schema/gateway.ts';
import type { ServerTlsSettings } from '../schema/tls-settings.ts';
import { each, sum, unique, type ValidationErrors } from './validation-errors.ts';
import {
  checkDefaultEndpoint,
  checkLabels,
  checkPort,
  checkProtocol,
  checkWholeLabels,
  checkWildcardHost,
  isIpAddress,
  isUnixSocket,
} from './values.ts';

const TLS_PROTOCOLS: ReadonlySet<string> = new Set(['HTTPS', 'TLS']);
const HTTP_PROTOCOLS: ReadonlySet<string> = new Set(['HTTP', 'HTTP2', 'GRPC', 'GRPC-WEB']);
/** Modes in which the gateway terminates TLS with its own certificate. */
const OWN_CERTIFICATE: ReadonlySet<string> = new Set(['SIMPLE', 'MUTUAL', 'OPTIONAL_MUTUAL']);
const VERSIONS = ['TLSV1_0', 'TLSV1_1', 'TLSV1_2', 'TLSV1_3'];
/** The versions for `TLS_AUTO`, and for an absent version: Envoy's defaults. */
const DEFAULT_MIN = 'TLSV1_2';
const DEFAULT_MAX = 'TLSV1_3';
/**
 * Cipher suites of TLS up to 1.2 that Envoy's BoringSSL knows. With an unknown one Envoy refuses the whole listener,
 * with all servers of the port.
 */
const CIPHER_SUITES: ReadonlySet<string> = new Set([
  'ECDHE-ECDSA-AES128-GCM-SHA256',
  'ECDHE-RSA-AES128-GCM-SHA256',
  'ECDHE-ECDSA-AES256-GCM-SHA384',
  'ECDHE-RSA-AES256-GCM-SHA384',
  'ECDHE-ECDSA-CHACHA20-POLY1305',
  'ECDHE-RSA-CHACHA20-POLY1305',
  'ECDHE-ECDSA-AES128-SHA',
  'ECDHE-RSA-AES128-SHA',
  'ECDHE-RSA-AES128-SHA256',
  'ECDHE-ECDSA-AES256-SHA',
  'ECDHE-RSA-AES256-SHA',
  'AES128-GCM-SHA256',
  'AES256-GCM-SHA384',
  'AES128-SHA',
  'AES256-SHA',
  'DES-CBC3-SHA',
]);
/** Suites of TLS 1.3, which cannot be configured. */
const TLS13_SUITE = /^TLS_(AES|CHACHA20)_/;
/** SHA-256 in base64, and in hexadecimal digits with or without colons between bytes, as Envoy accepts it. */
const SPKI = /^[A-Za-z0-9+/]{43}=$/;
const CERTIFICATE_HASH = /^([0-9a-fA-F]{64}|[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){31})$/;

export function validateGateway(spec: GatewaySpec, errors: ValidationErrors): void {
  if (!spec.servers?.length) errors.add(['servers'], 'required, expected at least one server');
  errors.at('servers').atMost('servers', spec.servers?.length);
  errors.at('servers').atMost(
    'serverHosts',
    sum(spec.servers, ({ hosts }) => hosts.length),
  );
  unique(errors.at('servers'), spec.servers, ['port', 'name'], 'port name', (server) => server.port.name);
  each(errors.at('servers'), spec.servers, checkServer);
  checkLabels(errors.at('selector'), spec.selector);
}

function checkServer(server: GatewayServer, errors: ValidationErrors): void {
  checkPort(errors.at('port', 'number'), server.port.number);
  if (!server.port.name) errors.add(['port', 'name'], 'required, expected a name');
  checkProtocol(errors.at('port', 'protocol'), server.port.protocol);
  if (server.hosts.length === 0) errors.add(['hosts'], 'required, expected at least one host');
  each(errors.at('hosts'), server.hosts, checkServerHost);
  if (TLS_PROTOCOLS.has(server.port.protocol?.toUpperCase() ?? '')) {
    each(errors.at('hosts'), server.hosts, (entry, at) => checkWholeLabels(at, entry.slice(entry.indexOf('/') + 1)));
  }
  const { bind, defaultEndpoint } = server;
  if (bind && !isIpAddress(bind) && !isUnixSocket(bind))
    errors.add(['bind'], `expected an IP address, got ${shown(bind)}`);
  if (defaultEndpoint) checkDefaultEndpoint(errors.at('defaultEndpoint'), defaultEndpoint);
  checkProtocolTls(server, errors);
  if (server.tls !== undefined) checkServerTls(server.tls, errors.at('tls'));
}

/** A host, optionally after a namespace, "." or "*" and a slash. */
function checkServerHost(entry: string, errors: ValidationErrors): void {
  const slash = entry.indexOf('/');
  const namespace = slash < 0 ? '*' : entry.slice(0, slash);
  if (namespace !== '*' && namespace !== '.' && !isDnsLabel(namespace)) {
    errors.add([], `expected a namespace, "." or "*" before the "/", got ${shown(namespace)}`);
  }
  const host = entry.slice(slash + 1);
  if (!isIpAddress(host)) checkWildcardHost(errors, host);
}

function checkProtocolTls(server: GatewayServer, errors: ValidationErrors): void {
  const protocol = server.port.protocol?.toUpperCase() ?? '';
  const { tls } = server;
  if (TLS_PROTOCOLS.has(protocol)) {
    if (tls === undefined) errors.add(['tls'], `required for protocol ${protocol}`);
  } else if (tls !== undefined && HTTP_PROTOCOLS.has(protocol)) {
    const settings = Object.keys(tls).filter((field) => field !== 'httpsRedirect');
    if (settings.length > 0) errors.add(['tls'], `expected only httpsRedirect with protocol ${protocol}`);
  }
}

/** Also used for the TLS settings of a Sidecar's ingress listener (`ingress-tls.ts`). */
export function checkServerTls(tls: ServerTlsSettings, errors: ValidationErrors): void {
  const { mode } = tls;
  const names = tls.credentialName || tls.credentialNames?.length || tls.tlsCertificates?.length;
  if (mode === 'MESH_MUTUAL' && (names || tls.serverCertificate || tls.privateKey || tls.caCertificates)) {
    errors.add([], 'expected no certificates of its own for mode MESH_MUTUAL');
  }
  // An absent mode means SIMPLE only if a certificate is named; `tls: {httpsRedirect: true}` has no mode at all.
  if (mode !== undefined && OWN_CERTIFICATE.has(mode) && !names) {
    if (!tls.serverCertificate)
      errors.add(['credentialName'], `required for mode ${mode} (or serverCertificate and privateKey)`);
    else if (!tls.privateKey) errors.add(['privateKey'], `required for mode ${mode} when serverCertificate is set`);
    if (mode === 'MUTUAL' && !tls.caCertificates && !tls.caCertCredentialName) {
      errors.add(['caCertificates'], 'required for mode MUTUAL');
    }
  }
  each(errors.at('tlsCertificates'), tls.tlsCertificates, (pair, at) => {
    if (!pair.serverCertificate) at.add(['serverCertificate'], 'required');
    if (!pair.privateKey) at.add(['privateKey'], 'required');
  });
  checkTlsVersions(tls, errors);
  each(errors.at('cipherSuites'), tls.cipherSuites, checkCipherSuite);
  each(errors.at('verifyCertificateSpki'), tls.verifyCertificateSpki, (hash, at) => {
    if (!SPKI.test(hash)) at.add([], `expected a SHA-256 in base64 (44 characters), got ${shown(hash)}`);
  });
  each(errors.at('verifyCertificateHash'), tls.verifyCertificateHash, (hash, at) => {
    if (!CERTIFICATE_HASH.test(hash)) at.add([], `expected a SHA-256 of 64 hexadecimal digits, got ${shown(hash)}`);
  });
}

/** With an empty range of versions, every handshake at the port would fail. */
function checkTlsVersions(
  { minProtocolVersion: min, maxProtocolVersion: max }: ServerTlsSettings,
  errors: ValidationErrors,
): void {
  const [least, most] = [explicitVersion(min) ?? DEFAULT_MIN, explicitVersion(max) ?? DEFAULT_MAX];
  if (VERSIONS.indexOf(least) <= VERSIONS.indexOf(most)) return;
  if (explicitVersion(min) !== undefined)
    errors.add(['minProtocolVersion'], `expected a version up to ${most}, got ${shown(min)}`);
  else
    errors.add(
      ['maxProtocolVersion'],
      `expected at least ${least}, which is the lowest version unless minProtocolVersion is set, ` +
        `got ${shown(max)}`,
    );
}

function explicitVersion(version: string | undefined): string | undefined {
  return version === 'TLS_AUTO' ? undefined : version;
}

function checkCipherSuite(suite: string, errors: ValidationErrors): void {
  if (CIPHER_SUITES.has(suite)) return;
  if (TLS13_SUITE.test(suite)) {
    errors.add([], `expected a cipher suite of TLS 1.2 or below (those of TLS 1.3 are always on), got ${shown(suite)}`);
  } else {
    errors.add([], `expected a cipher suite such as "ECDHE-RSA-AES128-GCM-SHA256", got ${shown(suite)}`);
  }
}
