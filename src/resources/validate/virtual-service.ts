/** VirtualService as admission checks it: hosts, gateways, and that each route says one thing to do. */
import { shown } from '../issues.ts';
import type {
  HttpRoute,
  L4Match,
  RouteDestination,
  TcpRoute,
  TlsRoute,
  VirtualServiceSpec,
} from '../schema/virtual-service.ts';
import { checkHttpRoute } from './http-route.ts';
import { checkDestination, checkWeights } from './route-values.ts';
import { each, type ValidationErrors } from './validation-errors.ts';
import {
  checkExportTo,
  checkLabels,
  checkOptionalPort,
  checkWildcardHost,
  hostCovers,
  isCidr,
  isDomain,
  isIpAddress,
  isNamespace,
} from './values.ts';

/** The name under which a VirtualService is for sidecars rather than gateways. */
const MESH_GATEWAY = 'mesh';

export function validateVirtualService(spec: VirtualServiceSpec, faults: ValidationErrors): void {
  const hosts = spec.hosts ?? [];
  if (hosts.length === 0) faults.add(['hosts'], 'required, expected at least one host: delegates are not served');
  else checkHosts(spec, hosts, faults.at('hosts'));
  each(faults.at('gateways'), spec.gateways, checkGatewayName);
  if (!spec.http?.length && !spec.tcp?.length && !spec.tls?.length) {
    faults.add([], 'expected at least one route under http, tls or tcp');
  }
  each(faults.at('http'), spec.http, checkRoute);
  each(faults.at('tls'), spec.tls, (route, at) => checkTlsRoute(route, hosts, at));
  each(faults.at('tcp'), spec.tcp, checkTcpRoute);
  checkExportTo(faults.at('exportTo'), spec.exportTo);
}

function checkHosts(spec: VirtualServiceSpec, hosts: readonly string[], faults: ValidationErrors): void {
  const forMesh = !spec.gateways?.length || spec.gateways.includes(MESH_GATEWAY);
  each(faults, hosts, (host, at) => {
    if (host === '*' && forMesh) at.add([], 'expected a host other than "*" for sidecars (gateway "mesh")');
    else if (!isIpAddress(host)) checkWildcardHost(at, host);
  });
  hosts.forEach((host, index) => {
    const earlier = hosts.slice(0, index).find((other) => hostCovers(other, host) || hostCovers(host, other));
    if (earlier !== undefined) faults.add([index], `overlaps with host ${shown(earlier)}`);
  });
}

/** `name`, `namespace/name`, or `mesh`. */
function checkGatewayName(name: string, faults: ValidationErrors): void {
  const parts = name.split('/');
  const [namespace = '', gateway = ''] = parts;
  const valid =
    parts.length === 1 ? isDomain(name) : parts.length === 2 && isGatewayNamespace(namespace) && isDomain(gateway);
  if (!valid) faults.add([], `expected "name", "namespace/name" or "mesh", got ${shown(name)}`);
}

function isGatewayNamespace(namespace: string): boolean {
  return namespace === '.' || isNamespace(namespace);
}

function checkRoute(route: HttpRoute, faults: ValidationErrors): void {
  checkHttpRoute(route, faults);
  each(faults.at('match'), route.match, (match, at) => each(at.at('gateways'), match.gateways, checkGatewayName));
}

function checkTlsRoute(route: TlsRoute, hosts: readonly string[], faults: ValidationErrors): void {
  if (!route.match?.length) faults.add(['match'], 'required, expected at least one match with sniHosts');
  each(faults.at('match'), route.match, (match, at) => {
    if (match.sniHosts.length === 0) at.add(['sniHosts'], 'required, expected at least one host');
    each(at.at('sniHosts'), match.sniHosts, (host, atHost) => {
      checkWildcardHost(atHost, host);
      if (!hosts.some((own) => hostCovers(own, host)))
        atHost.add([], `expected one of the hosts or a part of one, got ${shown(host)}`);
    });
    checkL4Match(match, at);
  });
  checkDestinations(route.route, faults);
}

function checkTcpRoute(route: TcpRoute, faults: ValidationErrors): void {
  each(faults.at('match'), route.match, checkL4Match);
  checkDestinations(route.route, faults);
}

function checkL4Match(match: L4Match, faults: ValidationErrors): void {
  each(faults.at('destinationSubnets'), match.destinationSubnets, (subnet, at) => {
    if (!isCidr(subnet)) at.add([], `expected an IP address or CIDR, got ${shown(subnet)}`);
  });
  checkOptionalPort(faults.at('port'), match.port);
  checkLabels(faults.at('sourceLabels'), match.sourceLabels);
  each(faults.at('gateways'), match.gateways, checkGatewayName);
}

function checkDestinations(route: readonly RouteDestination[] | undefined, faults: ValidationErrors): void {
  if (!route?.length) {
    faults.add(['route'], 'required, expected at least one destination');
    return;
  }
  each(faults.at('route'), route, (entry, at) => checkDestination(entry.destination, at.at('destination')));
  checkWeights(route, faults.at('route'));
}
