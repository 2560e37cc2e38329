/** ServiceEntry and WorkloadEntry as admission checks them: what each resolution can work with. */
import { shown } from '../issues.ts';
import type { ServiceEntrySpec, WorkloadEntrySpec } from '../schema/service-entry.ts';
import { each, unique, type ValidationErrors } from './validation-errors.ts';
import {
  checkDnsLabel,
  checkExportTo,
  checkLabels,
  checkOptionalPort,
  checkOptionalProtocol,
  checkPort,
  checkPortCount,
  checkSelectorLabels,
  checkWildcardHost,
  isCidr,
  isDomain,
  isIpAddress,
  isUnixSocket,
} from './values.ts';

/** `unix://` and the longest path that the kernel takes. */
/** Each host has a cluster for each port. */
const MAX_CLUSTERS = 16_384;
const MAX_UNIX_ADDRESS = 'unix://'.length + 107;
const DNS: ReadonlySet<string> = new Set(['DNS', 'DNS_ROUND_ROBIN']);

export function validateServiceEntry(spec: ServiceEntrySpec, faults: ValidationErrors): void {
  if (spec.hosts.length === 0) faults.add(['hosts'], 'required, expected at least one host');
  each(faults.at('hosts'), spec.hosts, (host, at) => {
    if (host === '*') at.add([], 'expected a host other than "*"');
    else if (!isIpAddress(host)) checkWildcardHost(at, host);
  });
  const clusters = spec.hosts.length * (spec.ports?.length ?? 0);
  if (clusters > MAX_CLUSTERS) {
    faults.add(['hosts'], `expected at most ${MAX_CLUSTERS} hosts times ports, got ${clusters}`);
  }
  checkAddresses(spec, faults.at('addresses'));
  checkPorts(spec, faults.at('ports'));
  if (spec.workloadSelector !== undefined && spec.endpoints?.length) {
    faults.add(['workloadSelector'], 'expected either endpoints or workloadSelector');
  }
  checkSelectorLabels(faults.at('workloadSelector', 'labels'), spec.workloadSelector, spec.workloadSelector?.labels);
  checkResolution(spec, faults);
  const portNames = new Set((spec.ports ?? []).flatMap((port) => port.name ?? []));
  each(faults.at('endpoints'), spec.endpoints, (endpoint, at) => {
    for (const name of Object.keys(endpoint.ports ?? {})) {
      if (!portNames.has(name)) at.add(['ports', name], 'expected the name of one of the ports');
    }
  });
  checkExportTo(faults.at('exportTo'), spec.exportTo);
}

function checkAddresses(spec: ServiceEntrySpec, faults: ValidationErrors): void {
  const { resolution = 'NONE' } = spec;
  each(faults, spec.addresses, (address, at) => {
    if (!isCidr(address)) at.add([], `expected an IP address or CIDR, got ${shown(address)}`);
    else if (address.includes('/') && resolution !== 'NONE' && resolution !== 'STATIC') {
      at.add([], `expected an IP address (CIDRs go with resolution NONE or STATIC), got ${shown(address)}`);
    }
  });
}

function checkPorts(spec: ServiceEntrySpec, faults: ValidationErrors): void {
  checkPortCount(faults, spec.ports);
  unique(faults, spec.ports, ['number'], 'port', (port) => port.number);
  unique(faults, spec.ports, ['name'], 'port name', (port) => port.name);
  each(faults, spec.ports, (port, at) => {
    checkPort(at.at('number'), port.number);
    checkDnsLabel(at.at('name'), port.name);
    checkOptionalProtocol(at.at('protocol'), port.protocol);
    checkOptionalPort(at.at('targetPort'), port.targetPort);
  });
}

function checkResolution(spec: ServiceEntrySpec, faults: ValidationErrors): void {
  const { resolution = 'NONE' } = spec;
  const endpoints = spec.endpoints ?? [];
  if (resolution === 'NONE' && endpoints.length > 0) {
    faults.add(['endpoints'], 'expected no endpoints with resolution NONE');
  }
  if (resolution === 'STATIC') {
    if (endpoints.length === 0 && spec.workloadSelector === undefined) {
      faults.add(['endpoints'], 'required (or workloadSelector) with resolution STATIC');
    }
    each(faults.at('endpoints'), endpoints, (endpoint, at) => checkEndpoint(endpoint, spec, at));
  }
  if (DNS.has(resolution)) {
    const wildcard = spec.hosts.findIndex((host) => host.startsWith('*'));
    if (endpoints.length === 0 && wildcard >= 0 && spec.workloadSelector === undefined) {
      faults.add(['hosts', wildcard], `expected a host without wildcard, or endpoints, with resolution ${resolution}`);
    }
    each(faults.at('endpoints'), endpoints, (endpoint, at) => {
      checkWorkload(endpoint, at);
      if (endpoint.address && isUnixSocket(endpoint.address))
        at.add(['address'], `expected a host name with resolution ${resolution}`);
    });
    if (resolution === 'DNS_ROUND_ROBIN' && endpoints.length > 1) {
      faults.add(['endpoints'], 'expected at most one endpoint with resolution DNS_ROUND_ROBIN');
    }
  }
  if (resolution === 'DYNAMIC_DNS' && endpoints.length > 0) {
    faults.add(['endpoints'], 'expected no endpoints with resolution DYNAMIC_DNS');
  }
}

function checkEndpoint(endpoint: WorkloadEntrySpec, spec: ServiceEntrySpec, faults: ValidationErrors): void {
  checkWorkload(endpoint, faults);
  const { address } = endpoint;
  if (address === undefined) return;
  if (isUnixSocket(address)) {
    if ((spec.ports ?? []).length > 1) faults.add(['address'], 'expected a single service port for a unix socket');
  } else if (!isIpAddress(address)) {
    faults.add(['address'], `expected an IP address with resolution STATIC, got ${shown(address)}`);
  }
}

export function validateWorkloadEntry(spec: WorkloadEntrySpec, faults: ValidationErrors): void {
  checkWorkload(spec, faults);
}

function checkWorkload(entry: WorkloadEntrySpec, faults: ValidationErrors): void {
  const { address = '' } = entry;
  if (address === '' && !entry.network)
    faults.add(['address'], 'required, expected an IP address, host name or unix:///PATH');
  if (isUnixSocket(address)) {
    if (address.length > MAX_UNIX_ADDRESS)
      faults.add(['address'], 'expected a unix socket path of at most 107 characters');
    if (Object.keys(entry.ports ?? {}).length > 0) faults.add(['ports'], 'expected no ports for a unix socket');
  } else if (address !== '' && !isIpAddress(address) && (!isDomain(address) || looksLikeAddress(address))) {
    faults.add(['address'], `expected an IP address, host name or unix:///PATH, got ${shown(address)}`);
  }
  for (const [name, port] of Object.entries(entry.ports ?? {})) {
    checkDnsLabel(faults.at('ports', name), name);
    checkPort(faults.at('ports', name), port);
  }
  checkLabels(faults.at('labels'), entry.labels);
  const parts = entry.locality?.split('/') ?? [];
  if (parts.length > 3 || (parts.length > 1 && parts.includes(''))) {
    faults.add(['locality'], `expected region/zone/subzone, got ${shown(entry.locality)}`);
  }
}

/** All digits and dots, but no address: a mistyped address, not a host. */
function looksLikeAddress(address: string): boolean {
  return /^[\d.]+$/.test(address);
}
