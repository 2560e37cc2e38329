/**
 * Validates core kinds: refuses only what would make Envoy refuse the generated configuration. Objects of an API server
 * have already been validated; files in a directory have not.
 */
import { shown } from '../parsing/issues.ts';
import type { EndpointSliceContent, EndpointsContent, PodContent, ServiceContent } from '../schema/core.ts';
import { each, unique, type ValidationErrors } from './validation-errors.ts';
import { checkDnsLabel, checkOptionalPort, checkPort, checkPortCount, isDomain, isIpAddress } from './values.ts';

function checkIp(errors: ValidationErrors, address: string | undefined): void {
  if (address !== undefined && address !== '' && !isIpAddress(address)) {
    errors.add([], `expected an IP address, got ${shown(address)}`);
  }
}

/** One for each IP family (ServiceSpec.clusterIPs). */
const MAX_CLUSTER_IPS = 2;

export function validateService(content: ServiceContent, errors: ValidationErrors): void {
  const { spec } = content;
  const at = errors.at('spec');
  const ports = spec.ports ?? [];
  if (spec.type === 'ExternalName') {
    const { externalName = '' } = spec;
    if (!isDomain(externalName) && !isIpAddress(externalName)) {
      at.add(['externalName'], `expected a host name for type ExternalName, got ${shown(externalName)}`);
    }
  }
  if (spec.clusterIP !== 'None') checkIp(at.at('clusterIP'), spec.clusterIP);
  each(at.at('clusterIPs'), spec.clusterIPs, (address, atAddress) => {
    if (address !== 'None') checkIp(atAddress, address);
  });
  const addresses = spec.clusterIPs?.length ?? 0;
  if (addresses > MAX_CLUSTER_IPS) at.add(['clusterIPs'], `expected at most ${MAX_CLUSTER_IPS}, got ${addresses}`);
  checkPortCount(at.at('ports'), ports);
  unique(at.at('ports'), ports, ['name'], 'port name', (port) => port.name);
  unique(at.at('ports'), ports, ['port'], 'port', (port) => `${port.port}/${port.protocol}`);
  each(at.at('ports'), ports, (port, atPort) => {
    checkPort(atPort.at('port'), port.port);
    if (typeof port.targetPort === 'number') checkPort(atPort.at('targetPort'), port.targetPort);
    checkOptionalPort(atPort.at('nodePort'), port.nodePort === 0 ? undefined : port.nodePort);
    if (ports.length > 1 || port.name) checkDnsLabel(atPort.at('name'), port.name);
  });
}

export function validateEndpoints(content: EndpointsContent, errors: ValidationErrors): void {
  each(errors.at('subsets'), content.subsets, (subset, at) => {
    for (const field of ['addresses', 'notReadyAddresses'] as const) {
      each(at.at(field), subset[field], (address, atAddress) => checkIp(atAddress.at('ip'), address.ip || '""'));
    }
    unique(at.at('ports'), subset.ports, ['name'], 'port name', (port) => port.name ?? '');
    each(at.at('ports'), subset.ports, (port, atPort) => checkPort(atPort.at('port'), port.port));
  });
}

export function validateEndpointSlice(content: EndpointSliceContent, errors: ValidationErrors): void {
  each(errors.at('endpoints'), content.endpoints, (endpoint, at) => {
    if (endpoint.addresses.length === 0) at.add(['addresses'], 'required, expected at least one address');
    each(at.at('addresses'), endpoint.addresses, (address, atAddress) => {
      if (content.addressType !== 'FQDN') checkIp(atAddress, address || '""');
      else if (!isDomain(address)) atAddress.add([], `expected a host name, got ${shown(address)}`);
    });
  });
  unique(errors.at('ports'), content.ports, ['name'], 'port name', (port) => port.name ?? '');
  each(errors.at('ports'), content.ports, (port, at) => checkOptionalPort(at.at('port'), port.port));
}

export function validatePod(content: PodContent, errors: ValidationErrors): void {
  const at = errors.at('status');
  checkIp(at.at('podIP'), content.status?.podIP);
  each(at.at('podIPs'), content.status?.podIPs, ({ ip }, atAddress) => checkIp(atAddress.at('ip'), ip));
  each(errors.at('spec', 'containers'), content.spec.containers, (container, atContainer) => {
    each(atContainer.at('ports'), container.ports, (port, atPort) =>
      checkPort(atPort.at('containerPort'), port.containerPort),
    );
  });
}
