/** Validates VirtualService: hosts, gateways, and that each route has one action. */
import { isDnsLabel } from '../../../core/dns-names.ts';
import { shown } from '../../parsing/issues.ts';
import type {
  HttpRoute,
  L4Match,
  RouteDestination,
  TcpRoute,
  TlsRoute,
  VirtualServiceSpec,
} from '../../schema/virtual-service.ts';
import { HostIndex } from '../host-index.ts';
import { each, sum, type ValidationErrors } from '../validation-errors.ts';
import {
  checkExportTo,
  checkLabels,
  checkOptionalPort,
  checkWholeLabels,
  checkWildcardHost,
  isCidr,
  isDomain,
  isIpAddress,
} from '../values.ts';
import { checkHttpRoute } from './http-route.ts';
import { checkDestination, checkWeights } from './route-values.ts';

/** The gateway name that means sidecars. */
const MESH_GATEWAY = 'mesh';

export function validateVirtualService(spec: VirtualServiceSpec, errors: ValidationErrors): void {
  const hosts = spec.hosts ?? [];
  // Each host costs time to check.
  if (!errors.at('hosts').atMost('virtualServiceHosts', hosts.length)) return;
  if (hosts.length === 0) checkDelegate(spec, errors);
  else checkHosts(spec, hosts, errors.at('hosts'));
  checkSize(spec, hosts, errors);
  each(errors.at('gateways'), spec.gateways, checkGatewayName);
  if (!spec.http?.length && !spec.tcp?.length && !spec.tls?.length) {
    errors.add([], 'expected at least one route under http, tls or tcp');
  }
  each(errors.at('http'), spec.http, checkRoute);
  const indexed = new HostIndex(hosts);
  each(errors.at('tls'), spec.tls, (route, at) => checkTlsRoute(route, indexed, at));
  each(errors.at('tcp'), spec.tcp, checkTcpRoute);
  checkExportTo(errors.at('exportTo'), spec.exportTo);
}

/** Checks a VirtualService without hosts, to which others delegate requests for their own hosts and gateways. */
function checkDelegate({ gateways, http, tls, tcp }: VirtualServiceSpec, errors: ValidationErrors): void {
  for (const [field, list] of Object.entries({ gateways, tls, tcp })) {
    if (list?.length) errors.add([field], `expected no ${field} without hosts: a delegate has only http`);
  }
  each(errors.at('http'), http, ({ delegate }, at) => {
    if (delegate !== undefined)
      at.add(['delegate'], 'expected no delegate without hosts: a delegate cannot delegate further');
  });
}

function checkSize({ http, tls, tcp }: VirtualServiceSpec, hosts: readonly string[], errors: ValidationErrors): void {
  for (const [field, routes] of Object.entries({ http, tls, tcp })) {
    const at = errors.at(field);
    const matches = sum<HttpRoute | TlsRoute | TcpRoute>(routes, ({ match }) => Math.max(1, match?.length ?? 0));
    at.atMost('routes', routes?.length);
    at.atMost('matches', matches);
    at.atMost(
      'destinations',
      sum<HttpRoute | TlsRoute | TcpRoute>(routes, ({ route }) => route?.length ?? 0),
    );
    at.atMost('hostRoutes', hosts.length * matches);
  }
}

function checkHosts(spec: VirtualServiceSpec, hosts: readonly string[], errors: ValidationErrors): void {
  const forMesh = !spec.gateways?.length || spec.gateways.includes(MESH_GATEWAY);
  each(errors, hosts, (host, at) => {
    if (host === '*' && forMesh) at.add([], 'expected a host other than "*" for sidecars (gateway "mesh")');
    else if (!isIpAddress(host)) checkWildcardHost(at, host);
  });
  const before = new HostIndex();
  hosts.forEach((host, index) => {
    const earlier = before.overlapping(host);
    if (earlier !== undefined) errors.add([index], `overlaps with host ${shown(hosts[earlier] ?? '')}`);
    before.add(host, index);
  });
}

/** `name`, `namespace/name`, or `mesh`. */
function checkGatewayName(name: string, errors: ValidationErrors): void {
  const parts = name.split('/');
  const [namespace = '', gateway = ''] = parts;
  const valid =
    parts.length === 1 ? isDomain(name) : parts.length === 2 && isGatewayNamespace(namespace) && isDomain(gateway);
  if (!valid) errors.add([], `expected "name", "namespace/name" or "mesh", got ${shown(name)}`);
}

function isGatewayNamespace(namespace: string): boolean {
  return namespace === '.' || isDnsLabel(namespace);
}

function checkRoute(route: HttpRoute, errors: ValidationErrors): void {
  checkHttpRoute(route, errors);
  each(errors.at('match'), route.match, (match, at) => each(at.at('gateways'), match.gateways, checkGatewayName));
}

function checkTlsRoute(route: TlsRoute, hosts: HostIndex, errors: ValidationErrors): void {
  if (!route.match?.length) errors.add(['match'], 'required, expected at least one match with sniHosts');
  each(errors.at('match'), route.match, (match, at) => {
    if (match.sniHosts.length === 0) at.add(['sniHosts'], 'required, expected at least one host');
    each(at.at('sniHosts'), match.sniHosts, (host, atHost) => {
      checkWildcardHost(atHost, host);
      checkWholeLabels(atHost, host);
      if (hosts.covering(host) === undefined)
        atHost.add([], `expected a host that spec.hosts covers, got ${shown(host)}`);
    });
    checkL4Match(match, at);
  });
  checkDestinations(route.route, errors);
}

function checkTcpRoute(route: TcpRoute, errors: ValidationErrors): void {
  each(errors.at('match'), route.match, checkL4Match);
  checkDestinations(route.route, errors);
}

function checkL4Match(match: L4Match, errors: ValidationErrors): void {
  each(errors.at('destinationSubnets'), match.destinationSubnets, checkSubnet);
  if (match.sourceSubnet) checkSubnet(match.sourceSubnet, errors.at('sourceSubnet'));
  checkOptionalPort(errors.at('port'), match.port);
  checkLabels(errors.at('sourceLabels'), match.sourceLabels);
  each(errors.at('gateways'), match.gateways, checkGatewayName);
}

function checkSubnet(subnet: string, errors: ValidationErrors): void {
  if (!isCidr(subnet)) errors.add([], `expected an IP address or CIDR, got ${shown(subnet)}`);
}

function checkDestinations(route: readonly RouteDestination[] | undefined, errors: ValidationErrors): void {
  if (!route?.length) {
    errors.add(['route'], 'required, expected at least one destination');
    return;
  }
  each(errors.at('route'), route, (entry, at) => checkDestination(entry.destination, at.at('destination')));
  checkWeights(route, errors.at('route'));
}
