/** Sidecar as admission checks it. */
import { shown } from '../issues.ts';
import type { SidecarEgress, SidecarIngress, SidecarSpec } from '../schema/sidecar.ts';
import { checkConnectionPool } from './destination-rule.ts';
import { checkServerTls } from './gateway.ts';
import { checkDestination } from './route-values.ts';
import { each, unique, type ValidationErrors } from './validation-errors.ts';
import {
  checkDefaultEndpoint,
  checkOptionalProtocol,
  checkPort,
  checkPortCount,
  checkSelectorLabels,
  checkWildcardHost,
  isIpAddress,
  isNamespace,
  isUnixSocket,
} from './values.ts';

export function validateSidecar(spec: SidecarSpec, faults: ValidationErrors): void {
  const { workloadSelector, ingress, egress, outboundTrafficPolicy } = spec;
  checkSelectorLabels(faults.at('workloadSelector', 'labels'), workloadSelector, workloadSelector?.labels);
  if (
    !ingress?.length &&
    !egress?.length &&
    outboundTrafficPolicy === undefined &&
    spec.inboundConnectionPool === undefined
  ) {
    faults.add([], 'expected at least one of ingress, egress, outboundTrafficPolicy');
  }
  checkPortCount(faults.at('ingress'), ingress);
  unique(faults.at('ingress'), ingress, ['port', 'number'], 'port', (listener) => listener.port.number);
  each(faults.at('ingress'), ingress, checkIngress);
  each(faults.at('egress'), egress, (listener, at) => checkEgress(listener, at));
  checkCatchAll(egress ?? [], faults.at('egress'));
  checkEgressProxy(spec, faults.at('outboundTrafficPolicy'));
  if (spec.inboundConnectionPool !== undefined) {
    checkConnectionPool(spec.inboundConnectionPool, faults.at('inboundConnectionPool'));
  }
}

function checkIngress(listener: SidecarIngress, faults: ValidationErrors): void {
  checkPort(faults.at('port', 'number'), listener.port.number);
  checkOptionalProtocol(faults.at('port', 'protocol'), listener.port.protocol);
  const { bind, defaultEndpoint, tls } = listener;
  if (bind && !isIpAddress(bind)) faults.add(['bind'], `expected an IP address, got ${shown(bind)}`);
  if (defaultEndpoint) checkDefaultEndpoint(faults.at('defaultEndpoint'), defaultEndpoint);
  if (tls !== undefined) checkServerTls(tls, faults.at('tls'));
  if (listener.connectionPool !== undefined) checkConnectionPool(listener.connectionPool, faults.at('connectionPool'));
}

function checkEgress(listener: SidecarEgress, faults: ValidationErrors): void {
  const { port, bind, captureMode, hosts } = listener;
  const isSocket = bind !== undefined && isUnixSocket(bind);
  if (port !== undefined) {
    // A unix socket has no port number, and says 0.
    if (!isSocket) checkPort(faults.at('port', 'number'), port.number);
    checkOptionalProtocol(faults.at('port', 'protocol'), port.protocol);
  } else if (bind) {
    faults.add(['port'], 'required beside bind');
  }
  if (bind && !isSocket && !isIpAddress(bind))
    faults.add(['bind'], `expected an IP address or unix:///PATH, got ${shown(bind)}`);
  if (isSocket && captureMode !== undefined && captureMode !== 'NONE' && captureMode !== 'DEFAULT') {
    faults.add(['captureMode'], 'expected NONE for a unix socket');
  }
  if (hosts.length === 0) faults.add(['hosts'], 'required, expected at least one host');
  each(faults.at('hosts'), hosts, checkEgressHost);
}

/** A namespace (or "*", ".", "~") and a host, with a slash between. */
function checkEgressHost(entry: string, faults: ValidationErrors): void {
  const slash = entry.indexOf('/');
  const namespace = entry.slice(0, Math.max(0, slash));
  if (slash < 0 || (!['*', '.', '~'].includes(namespace) && !isNamespace(namespace))) {
    faults.add([], `expected "namespace/host", with ".", "*" or "~" for namespaces as well, got ${shown(entry)}`);
    return;
  }
  const host = entry.slice(slash + 1);
  if (namespace === '~' && host !== '*') faults.add([], `expected "~/*", got ${shown(entry)}`);
  else if (!isIpAddress(host)) checkWildcardHost(faults, host);
}

/** A listener without port takes what the others leave: there can be one, at the end. */
function checkCatchAll(egress: readonly SidecarEgress[], faults: ValidationErrors): void {
  egress.forEach((listener, index) => {
    if (listener.port === undefined && index < egress.length - 1) {
      faults.add([index, 'port'], 'required, except in the last egress listener');
    }
  });
  unique(faults, egress, ['port', 'number'], 'port', (listener) =>
    listener.port?.number === undefined ? undefined : `${listener.bind ?? ''}:${listener.port.number}`,
  );
}

function checkEgressProxy(spec: SidecarSpec, faults: ValidationErrors): void {
  const proxy = spec.outboundTrafficPolicy?.egressProxy;
  if (proxy === undefined) return;
  checkDestination(proxy, faults.at('egressProxy'));
  if (proxy.port === undefined) faults.add(['egressProxy', 'port'], "required, expected the proxy's port");
  if (spec.outboundTrafficPolicy?.mode === 'REGISTRY_ONLY') {
    faults.add(['egressProxy'], 'expected mode ALLOW_ANY beside it');
  }
}
