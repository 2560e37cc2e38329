/** Gateway as admission checks it: ports, hosts, and TLS that fits the protocol. */
import { shown } from '../issues.ts';
import type { GatewayServer, GatewaySpec } from '../schema/gateway.ts';
import type { ServerTlsSettings } from '../schema/tls-settings.ts';
import { each, type Faults, unique } from './faults.ts';
import {
  checkDefaultEndpoint,
  checkLabels,
  checkPort,
  checkProtocol,
  checkWildcardHost,
  isIpAddress,
  isNamespace,
  isUnixSocket,
} from './values.ts';

const TLS_PROTOCOLS: ReadonlySet<string> = new Set(['HTTPS', 'TLS']);
const HTTP_PROTOCOLS: ReadonlySet<string> = new Set(['HTTP', 'HTTP2', 'GRPC', 'GRPC-WEB']);
/** Modes in which the gateway ends TLS with a certificate of its own. */
const OWN_CERTIFICATE: ReadonlySet<string> = new Set(['SIMPLE', 'MUTUAL', 'OPTIONAL_MUTUAL']);
const VERSIONS = ['TLS_AUTO', 'TLSV1_0', 'TLSV1_1', 'TLSV1_2', 'TLSV1_3'];

export function validateGateway(spec: GatewaySpec, faults: Faults): void {
  if (!spec.servers?.length) faults.add(['servers'], 'required, expected at least one server');
  unique(faults.at('servers'), spec.servers, ['port', 'name'], 'port name', (server) => server.port.name);
  each(faults.at('servers'), spec.servers, checkServer);
  checkLabels(faults.at('selector'), spec.selector);
}

function checkServer(server: GatewayServer, faults: Faults): void {
  checkPort(faults.at('port', 'number'), server.port.number);
  if (!server.port.name) faults.add(['port', 'name'], 'required, expected a name');
  checkProtocol(faults.at('port', 'protocol'), server.port.protocol);
  if (server.hosts.length === 0) faults.add(['hosts'], 'required, expected at least one host');
  each(faults.at('hosts'), server.hosts, checkServerHost);
  const { bind, defaultEndpoint } = server;
  if (bind && !isIpAddress(bind) && !isUnixSocket(bind))
    faults.add(['bind'], `expected an IP address, got ${shown(bind)}`);
  if (defaultEndpoint) checkDefaultEndpoint(faults.at('defaultEndpoint'), defaultEndpoint);
  checkProtocolTls(server, faults);
  if (server.tls !== undefined) checkServerTls(server.tls, faults.at('tls'));
}

/** A host, alone or after a namespace, "." or "*" and a slash. */
function checkServerHost(entry: string, faults: Faults): void {
  const slash = entry.indexOf('/');
  const namespace = slash < 0 ? '*' : entry.slice(0, slash);
  if (namespace !== '*' && namespace !== '.' && !isNamespace(namespace)) {
    faults.add([], `expected a namespace, "." or "*" before the "/", got ${shown(namespace)}`);
  }
  const host = entry.slice(slash + 1);
  if (!isIpAddress(host)) checkWildcardHost(faults, host);
}

function checkProtocolTls(server: GatewayServer, faults: Faults): void {
  const protocol = server.port.protocol?.toUpperCase() ?? '';
  const { tls } = server;
  if (TLS_PROTOCOLS.has(protocol)) {
    if (tls === undefined) faults.add(['tls'], `required for protocol ${protocol}`);
    else if (tls.httpsRedirect === true)
      faults.add(['tls', 'httpsRedirect'], 'expected only with a plain HTTP protocol');
  } else if (tls !== undefined && HTTP_PROTOCOLS.has(protocol)) {
    const settings = Object.keys(tls).filter((field) => field !== 'httpsRedirect');
    if (settings.length > 0) faults.add(['tls'], `expected nothing but httpsRedirect with protocol ${protocol}`);
  }
}

/** Also the TLS of a Sidecar's ingress listener. */
export function checkServerTls(tls: ServerTlsSettings, faults: Faults): void {
  const { mode } = tls;
  const names = tls.credentialName || tls.credentialNames?.length || tls.tlsCertificates?.length;
  if (mode === 'MESH_MUTUAL' && (names || tls.serverCertificate || tls.privateKey || tls.caCertificates)) {
    faults.add([], 'expected no certificates of its own for mode MESH_MUTUAL');
  }
  // SIMPLE is the protocol's zero mode only where a certificate is named; `tls: {httpsRedirect: true}` has no mode at all.
  if (mode !== undefined && OWN_CERTIFICATE.has(mode) && !names) {
    if (!tls.serverCertificate)
      faults.add(['credentialName'], `required for mode ${mode} (or serverCertificate and privateKey)`);
    else if (!tls.privateKey) faults.add(['privateKey'], `required for mode ${mode} beside serverCertificate`);
    if (mode === 'MUTUAL' && !tls.caCertificates && !tls.caCertCredentialName) {
      faults.add(['caCertificates'], 'required for mode MUTUAL');
    }
  }
  const { minProtocolVersion: min, maxProtocolVersion: max } = tls;
  if (min !== undefined && max !== undefined && max !== 'TLS_AUTO' && VERSIONS.indexOf(min) > VERSIONS.indexOf(max)) {
    faults.add(['minProtocolVersion'], 'expected a version up to maxProtocolVersion');
  }
}
