/**
 * Validates the mesh configuration. A value that Envoy refuses would be refused in every cluster or listener of every
 * proxy.
 */
import { isDnsLabel } from '../../core/dns-names.ts';
import type { ValidationError } from '../reading/issues.ts';
import type { MeshConfig } from '../schema/mesh-config.ts';
import { checkLocalityLb, checkTcpKeepalive } from './destination-rule.ts';
import { errorList } from './validation-errors.ts';
import { checkDuration, checkNotNegative, checkPort } from './values.ts';

/** Cluster.dns_refresh_rate has to be more than a millisecond. */
const MIN_DNS_REFRESH_MILLIS = 2;

/** Errors in the order of the checks; the first one is reported. */
export function meshConfigErrors(mesh: MeshConfig): readonly ValidationError[] {
  const { errors, found } = errorList();
  checkDuration(errors.at('connectTimeout'), mesh.connectTimeout);
  // 0 means to wait forever.
  checkNotNegative(errors.at('protocolDetectionTimeout'), mesh.protocolDetectionTimeout);
  const { dnsRefreshRate } = mesh;
  if (dnsRefreshRate < MIN_DNS_REFRESH_MILLIS) {
    errors.add(
      ['dnsRefreshRate'],
      `expected a duration of at least ${MIN_DNS_REFRESH_MILLIS}ms, got ${dnsRefreshRate}ms`,
    );
  }
  if (mesh.tcpKeepalive !== undefined) checkTcpKeepalive(mesh.tcpKeepalive, errors.at('tcpKeepalive'));
  checkLocalityLb(mesh.localityLbSetting, errors.at('localityLbSetting'));
  checkPort(errors.at('proxyListenPort'), mesh.proxyListenPort);
  checkPort(errors.at('proxyInboundListenPort'), mesh.proxyInboundListenPort);
  if (mesh.proxyListenPort === mesh.proxyInboundListenPort) {
    errors.add(['proxyInboundListenPort'], `expected a port other than proxyListenPort, got ${mesh.proxyListenPort}`);
  }
  for (const [index, name] of mesh.trustedConfigNamespaces.entries()) {
    if (name === '*' || isDnsLabel(name)) continue;
    errors.add(['trustedConfigNamespaces', index], `expected the name of a namespace, or *, got "${name}"`);
  }
  return found;
}
