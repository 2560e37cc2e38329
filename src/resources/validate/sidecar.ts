/** Validates Sidecar. */
import { isDnsLabel } from '../../core/dns-names.ts';
import { shown } from '../parsing/issues.ts';
import type { SidecarEgress, SidecarIngress, SidecarSpec } from '../schema/sidecar.ts';
import { checkConnectionPool } from './destination-rule.ts';
import { checkDestination } from './routes/route-values.ts';
import { each, sum, unique, type ValidationErrors } from './validation-errors.ts';
import {
  checkDefaultEndpoint,
  checkLabels,
  checkOptionalProtocol,
  checkPort,
  checkWholeLabels,
  checkWildcardHost,
  isIpAddress,
  isUnixSocket,
} from './values.ts';

export function validateSidecar(spec: SidecarSpec, errors: ValidationErrors): void {
  const { workloadSelector, ingress, egress, outboundTrafficPolicy } = spec;
  checkLabels(errors.at('workloadSelector', 'labels'), workloadSelector?.labels);
  if (
    !ingress?.length &&
    !egress?.length &&
    outboundTrafficPolicy === undefined &&
    spec.inboundConnectionPool === undefined
  ) {
    errors.add([], 'expected at least one of ingress, egress, outboundTrafficPolicy');
  }
  errors.at('ingress').atMost('ingressListeners', ingress?.length);
  errors.at('egress').atMost('egressListeners', egress?.length);
  errors.at('egress').atMost(
    'egressHosts',
    sum(egress, ({ hosts }) => hosts.length),
  );
  unique(errors.at('ingress'), ingress, ['port', 'number'], 'port', (listener) => listener.port.number);
  each(errors.at('ingress'), ingress, checkIngress);
  each(errors.at('egress'), egress, (listener, at) => checkEgress(listener, at));
  checkCatchAll(egress ?? [], errors.at('egress'));
  checkEgressProxy(spec, errors.at('outboundTrafficPolicy'));
  if (spec.inboundConnectionPool !== undefined) {
    checkConnectionPool(spec.inboundConnectionPool, errors.at('inboundConnectionPool'));
  }
}

/** Its TLS settings are checked in `ingress-tls.ts`, which can close the listener. */
function checkIngress(listener: SidecarIngress, errors: ValidationErrors): void {
  checkPort(errors.at('port', 'number'), listener.port.number);
  checkOptionalProtocol(errors.at('port', 'protocol'), listener.port.protocol);
  const { bind, defaultEndpoint } = listener;
  if (bind && !isIpAddress(bind)) errors.add(['bind'], `expected an IP address, got ${shown(bind)}`);
  if (defaultEndpoint) checkDefaultEndpoint(errors.at('defaultEndpoint'), defaultEndpoint);
  if (listener.connectionPool !== undefined) checkConnectionPool(listener.connectionPool, errors.at('connectionPool'));
}

function checkEgress(listener: SidecarEgress, errors: ValidationErrors): void {
  const { port, bind, captureMode, hosts } = listener;
  const isSocket = bind !== undefined && isUnixSocket(bind);
  if (port !== undefined) {
    // A unix socket has port number 0.
    if (!isSocket) checkPort(errors.at('port', 'number'), port.number);
    checkOptionalProtocol(errors.at('port', 'protocol'), port.protocol);
  } else if (bind) {
    errors.add(['port'], 'required when bind is set');
  }
  if (bind && !isSocket && !isIpAddress(bind))
    errors.add(['bind'], `expected an IP address or unix:///PATH, got ${shown(bind)}`);
  if (isSocket && captureMode !== undefined && captureMode !== 'NONE' && captureMode !== 'DEFAULT') {
    errors.add(['captureMode'], 'expected NONE for a unix socket');
  }
  if (hosts.length === 0) errors.add(['hosts'], 'required, expected at least one host');
  each(errors.at('hosts'), hosts, checkEgressHost);
}

/** `namespace/host`, where the namespace may be "*", "." or "~"; `~namespace/host` is not imported. */
function checkEgressHost(entry: string, errors: ValidationErrors): void {
  const slash = entry.indexOf('/');
  const namespace = entry.slice(entry.startsWith('~') ? 1 : 0, Math.max(0, slash));
  if (slash < 0 || (!['*', '.', ''].includes(namespace) && !isDnsLabel(namespace)) || entry.startsWith('/')) {
    const message =
      'expected "namespace/host", with "*" or "." for a namespace, or "~namespace/host" to exclude a host';
    errors.add([], `${message}, got ${shown(entry)}`);
    return;
  }
  const host = entry.slice(slash + 1);
  if (isIpAddress(host)) return;
  checkWildcardHost(errors, host);
  checkWholeLabels(errors, host);
}

/** A listener without port receives the remaining connections: there can be one, at the end. */
function checkCatchAll(egress: readonly SidecarEgress[], errors: ValidationErrors): void {
  egress.forEach((listener, index) => {
    if (listener.port === undefined && index < egress.length - 1) {
      errors.add([index, 'port'], 'required, except in the last egress listener');
    }
  });
  unique(errors, egress, ['port', 'number'], 'port', (listener) =>
    listener.port?.number === undefined ? undefined : `${listener.bind ?? ''}:${listener.port.number}`,
  );
  const sockets = new Set<string>();
  egress.forEach(({ port, bind }, index) => {
    if (bind === undefined || !isUnixSocket(bind) || port?.number !== undefined) return;
    if (sockets.has(bind)) errors.addForAuthor([index, 'bind'], `duplicate unix socket ${shown(bind)}`);
    sockets.add(bind);
  });
}

function checkEgressProxy(spec: SidecarSpec, errors: ValidationErrors): void {
  const proxy = spec.outboundTrafficPolicy?.egressProxy;
  if (proxy === undefined) return;
  checkDestination(proxy, errors.at('egressProxy'));
  if (proxy.port === undefined) errors.add(['egressProxy', 'port'], "required, expected the proxy's port");
  const mode = spec.outboundTrafficPolicy?.mode;
  if (mode === 'REGISTRY_ONLY') errors.add(['egressProxy'], 'requires mode ALLOW_ANY');
  else if (mode === undefined) {
    errors.addForAuthor(['mode'], 'required with egressProxy, expected ALLOW_ANY (the default is REGISTRY_ONLY)');
  }
}
