/**
 * The mesh configuration as admission would check it, were it a resource. What Envoy refuses here it refuses in every
 * cluster or listener of every proxy at once.
 */
import type { Fault } from '../issues.ts';
import type { MeshConfig } from '../schema/mesh-config.ts';
import { checkLocalityLb, checkTcpKeepalive } from './destination-rule.ts';
import { faultList } from './validation-errors.ts';
import { checkDuration, checkNotNegative, checkPort } from './values.ts';

/** Cluster.dns_refresh_rate has to be more than a millisecond. */
const MIN_DNS_REFRESH_MILLIS = 2;

/** ValidationErrors in the order of the checks; the first is what people are told. */
export function meshConfigErrors(mesh: MeshConfig): readonly Fault[] {
  const { faults, found } = faultList();
  checkDuration(faults.at('connectTimeout'), mesh.connectTimeout);
  // 0 waits for ever.
  checkNotNegative(faults.at('protocolDetectionTimeout'), mesh.protocolDetectionTimeout);
  const { dnsRefreshRate } = mesh;
  if (dnsRefreshRate < MIN_DNS_REFRESH_MILLIS) {
    faults.add(
      ['dnsRefreshRate'],
      `expected a duration of at least ${MIN_DNS_REFRESH_MILLIS}ms, got ${dnsRefreshRate}ms`,
    );
  }
  if (mesh.tcpKeepalive !== undefined) checkTcpKeepalive(mesh.tcpKeepalive, faults.at('tcpKeepalive'));
  checkLocalityLb(mesh.localityLbSetting, faults.at('localityLbSetting'));
  checkPort(faults.at('proxyListenPort'), mesh.proxyListenPort);
  checkPort(faults.at('proxyInboundListenPort'), mesh.proxyInboundListenPort);
  if (mesh.proxyListenPort === mesh.proxyInboundListenPort) {
    faults.add(['proxyInboundListenPort'], `expected another port than proxyListenPort, got ${mesh.proxyListenPort}`);
  }
  return found;
}
