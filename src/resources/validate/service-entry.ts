/** Validates ServiceEntry and WorkloadEntry: which endpoints each resolution needs. */
import { shown } from '../parsing/issues.ts';
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
  checkWildcardHost,
  isCidr,
  isDomain,
  isIpAddress,
  isUnixSocket,
} from './values.ts';

/** Each host has a cluster for each port. */
const MAX_CLUSTERS = 16_384;
/** `unix://` and the longest path that the kernel accepts. */
const MAX_UNIX_ADDRESS = 'unix://'.length + 107;
/** Protocols whose requests contain the host name. */
const NAMES_ITS_HOST: ReadonlySet<string> = new Set(['HTTP', 'HTTP2', 'GRPC', 'TLS']);
const DNS: ReadonlySet<string> = new Set(['DNS', 'DNS_ROUND_ROBIN']);

export function validateServiceEntry(spec: ServiceEntrySpec, errors: ValidationErrors): void {
  if (spec.hosts.length === 0) errors.add(['hosts'], 'required, expected at least one host');
  errors.at('hosts').atMost('serviceHosts', spec.hosts.length);
  errors.at('addresses').atMost('serviceAddresses', spec.addresses?.length);
  checkCopies(spec, errors);
  each(errors.at('hosts'), spec.hosts, (host, at) => {
    if (host === '*') at.add([], 'expected a host other than "*"');
    else if (!isIpAddress(host)) checkWildcardHost(at, host);
  });
  const clusters = spec.hosts.length * (spec.ports?.length ?? 0);
  if (clusters > MAX_CLUSTERS) {
    errors.add(['hosts'], `expected at most ${MAX_CLUSTERS} hosts times ports, got ${clusters}`);
  }
  checkAddresses(spec, errors.at('addresses'));
  checkPorts(spec, errors.at('ports'));
  if (spec.workloadSelector !== undefined && spec.endpoints?.length) {
    errors.add(['workloadSelector'], 'expected either endpoints or workloadSelector');
  }
  checkLabels(errors.at('workloadSelector', 'labels'), spec.workloadSelector?.labels);
  checkResolution(spec, errors);
  const portNames = new Set((spec.ports ?? []).flatMap((port) => port.name ?? []));
  each(errors.at('endpoints'), spec.endpoints, (endpoint, at) => {
    for (const name of Object.keys(endpoint.ports ?? {})) {
      if (!portNames.has(name)) at.add(['ports', name], 'expected the name of one of the ports');
    }
  });
  checkExportTo(errors.at('exportTo'), spec.exportTo);
}

function checkCopies({ hosts, ports, addresses, endpoints }: ServiceEntrySpec, errors: ValidationErrors): void {
  const copies = Math.max(1, hosts.length);
  errors.at('addresses').atMost('hostAddresses', copies * (addresses?.length ?? 0));
  errors.at('endpoints').atMost('hostEndpoints', copies * Math.max(1, ports?.length ?? 0) * (endpoints?.length ?? 0));
}

function checkAddresses(spec: ServiceEntrySpec, errors: ValidationErrors): void {
  const { resolution = 'NONE' } = spec;
  each(errors, spec.addresses, (address, at) => {
    if (!isCidr(address)) at.add([], `expected an IP address or CIDR, got ${shown(address)}`);
    else if (address.includes('/') && resolution !== 'NONE' && resolution !== 'STATIC') {
      at.add([], `expected an IP address (CIDRs require resolution NONE or STATIC), got ${shown(address)}`);
    }
  });
}

function checkPorts(spec: ServiceEntrySpec, errors: ValidationErrors): void {
  checkPortCount(errors, spec.ports);
  unique(errors, spec.ports, ['number'], 'port', (port) => port.number);
  unique(errors, spec.ports, ['name'], 'port name', (port) => port.name);
  each(errors, spec.ports, (port, at) => {
    checkPort(at.at('number'), port.number);
    checkDnsLabel(at.at('name'), port.name);
    checkOptionalProtocol(at.at('protocol'), port.protocol);
    checkOptionalPort(at.at('targetPort'), port.targetPort);
  });
}

function checkResolution(spec: ServiceEntrySpec, errors: ValidationErrors): void {
  const { resolution = 'NONE' } = spec;
  const endpoints = spec.endpoints ?? [];
  if (resolution === 'NONE' && endpoints.length > 0) {
    errors.add(['endpoints'], 'expected no endpoints with resolution NONE');
  }
  if (resolution === 'STATIC') {
    each(errors.at('endpoints'), endpoints, (endpoint, at) => checkEndpoint(endpoint, spec, at));
  }
  if (DNS.has(resolution)) {
    const wildcard = spec.hosts.findIndex((host) => host.startsWith('*'));
    if (endpoints.length === 0 && wildcard >= 0 && spec.workloadSelector === undefined) {
      errors.add(['hosts', wildcard], `expected a host without wildcard, or endpoints, with resolution ${resolution}`);
    }
    each(errors.at('endpoints'), endpoints, (endpoint, at) => {
      checkWorkload(endpoint, at);
      if (endpoint.address && isUnixSocket(endpoint.address))
        at.add(['address'], `expected a host name with resolution ${resolution}`);
    });
    if (resolution === 'DNS_ROUND_ROBIN' && endpoints.length > 1) {
      errors.add(['endpoints'], 'expected at most one endpoint with resolution DNS_ROUND_ROBIN');
    }
  }
  if (resolution === 'DYNAMIC_DNS') checkDynamicDns(spec, errors);
}

function checkDynamicDns({ hosts, addresses, ports, endpoints }: ServiceEntrySpec, errors: ValidationErrors): void {
  if (endpoints?.length) errors.add(['endpoints'], 'expected no endpoints with resolution DYNAMIC_DNS');
  each(errors.at('hosts'), hosts, (host, at) => {
    if (!host.startsWith('*'))
      at.addForAuthor([], `expected a wildcard with resolution DYNAMIC_DNS, got ${shown(host)}`);
  });
  if (addresses?.length) errors.addForAuthor(['addresses'], 'expected no addresses with resolution DYNAMIC_DNS');
  each(errors.at('ports'), ports, ({ protocol = '' }, at) => {
    if (NAMES_ITS_HOST.has(protocol.toUpperCase())) return;
    const expected = [...NAMES_ITS_HOST].join(', ');
    at.addForAuthor(['protocol'], `expected one of ${expected} with resolution DYNAMIC_DNS, got ${shown(protocol)}`);
  });
}

function checkEndpoint(endpoint: WorkloadEntrySpec, spec: ServiceEntrySpec, errors: ValidationErrors): void {
  checkWorkload(endpoint, errors);
  const { address } = endpoint;
  if (address === undefined) return;
  if (isUnixSocket(address)) {
    if ((spec.ports ?? []).length > 1) errors.add(['address'], 'expected a single service port for a unix socket');
  } else if (!isIpAddress(address)) {
    errors.add(['address'], `expected an IP address with resolution STATIC, got ${shown(address)}`);
  }
}

export function validateWorkloadEntry(spec: WorkloadEntrySpec, errors: ValidationErrors): void {
  checkWorkload(spec, errors);
}

/** Checks a workload entry, or an endpoint written in a service entry. */
function checkWorkload(entry: WorkloadEntrySpec, errors: ValidationErrors): void {
  const { address = '' } = entry;
  if (address === '' && !entry.network)
    errors.add(['address'], 'required, expected an IP address, host name or unix:///PATH');
  if (isUnixSocket(address)) {
    if (address.length > MAX_UNIX_ADDRESS)
      errors.add(['address'], 'expected a unix socket path of at most 107 characters');
    if (Object.keys(entry.ports ?? {}).length > 0) errors.add(['ports'], 'expected no ports for a unix socket');
  } else if (address !== '' && !isIpAddress(address) && (!isDomain(address) || looksLikeAddress(address))) {
    errors.add(['address'], `expected an IP address, host name or unix:///PATH, got ${shown(address)}`);
  }
  checkPlacement(entry, errors);
}

/** Checks the fields of an entry other than its address. */
export function checkPlacement(entry: WorkloadEntrySpec, errors: ValidationErrors): void {
  for (const [name, port] of Object.entries(entry.ports ?? {})) {
    checkDnsLabel(errors.at('ports', name), name);
    checkPort(errors.at('ports', name), port);
  }
  checkLabels(errors.at('labels'), entry.labels);
  const parts = entry.locality?.split('/') ?? [];
  if (parts.length > 3 || (parts.length > 1 && parts.includes(''))) {
    errors.add(['locality'], `expected region/zone/subzone, got ${shown(entry.locality)}`);
  }
}

/** All digits and dots, but not an address: a mistyped address, not a host. */
function looksLikeAddress(address: string): boolean {
  return /^[\d.]+$/.test(address);
}
