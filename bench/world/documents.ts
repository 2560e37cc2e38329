/**
 * The generated mesh as YAML: equal numbers give equal bytes. Each function writes one resource; what varies from round
 * to round comes in as `version`.
 */

import type { Content } from '../options.ts';

/** The groups that Istio's control plane reads as well (`--program`). */
const API = 'networking.istio.io/v1';
const SECURITY_API = 'security.istio.io/v1';

/** Every service has these two ports. */
export const HTTP_PORT = 8080;
export const TCP_PORT = 9090;

/** Of documents for the whole mesh, by default. */
const ROOT_NAMESPACE = 'mesh-system';

export interface ServiceRef {
  readonly name: string;
  readonly namespace: string;
  readonly host: string;
  /** Unique for each service: addresses are derived from it. */
  readonly number: number;
}

export function serviceRef(number: number, namespace: string): ServiceRef {
  const name = `svc-${String(number).padStart(5, '0')}`;
  return { name, namespace, host: `${name}.${namespace}.mesh.bench`, number };
}

/** An address in 10.`net`.0.0 and the networks after it. */
function address(net: number, number: number): string {
  return `10.${net + (number >> 16)}.${(number >> 8) & 255}.${number & 255}`;
}

/** Endpoint numbers of a service are below this, so that services do not share addresses. */
const MAX_ENDPOINTS = 64;

const ZONES = ['region-1/zone-a', 'region-1/zone-b', 'region-2/zone-a'];

export function head(api: string, kind: string, name: string, namespace: string): string {
  return `apiVersion: ${api}\nkind: ${kind}\nmetadata:\n  name: ${name}\n  namespace: ${namespace}\nspec:\n`;
}

/**
 * The label of a workload whose sidecar accepts mutual TLS, as injection writes it. Both control planes read Istio's.
 */
const TLS_READY = '        security.istio.io/tlsMode: istio\n';

export interface EntryOptions {
  readonly endpoints: number;
  /** Changes the address of the first endpoint, and nothing else. */
  readonly version: number;
  readonly exportTo?: string;
  readonly content: Content;
  /** It has no port but that for HTTP. */
  readonly onlyHttp?: boolean | undefined;
}

export function serviceEntry(service: ServiceRef, options: EntryOptions): string {
  const { endpoints, version, exportTo, content, onlyHttp = false } = options;
  const count = Math.min(endpoints, MAX_ENDPOINTS);
  const workloads = Array.from({ length: count }, (_, index) => {
    const at =
      index === 0 && version > 0
        ? address(200, (service.number * 131 + version) % 0x3fffff)
        : address(128, service.number * MAX_ENDPOINTS + index);
    const labels = `      labels:\n        app: ${service.name}\n        version: v${1 + (index % 2)}\n`;
    const secured = content === 'mtls' ? `${TLS_READY}      serviceAccount: ${service.name}\n` : '';
    return `    - address: ${at}\n${labels}${secured}      locality: ${ZONES[index % ZONES.length]}\n`;
  });
  return [
    head(API, 'ServiceEntry', service.name, service.namespace),
    `  hosts:\n    - ${service.host}\n  addresses:\n    - ${address(64, service.number + 1)}\n`,
    exportTo === undefined ? '' : `  exportTo:\n    - "${exportTo}"\n`,
    '  location: MESH_INTERNAL\n  resolution: STATIC\n  ports:\n',
    `    - number: ${HTTP_PORT}\n      name: http\n      protocol: HTTP\n`,
    onlyHttp ? '' : `    - number: ${TCP_PORT}\n      name: tcp\n      protocol: TCP\n`,
    `  endpoints:\n${workloads.join('')}`,
  ].join('');
}

/** Several routes: header match to a subset, prefix with rewrite and retries, the rest split by weight. */
export function virtualService(service: ServiceRef, version: number): string {
  const to = (subset: string, weight: number): string =>
    `        - destination:\n            host: ${service.host}\n            subset: ${subset}\n` +
    `            port:\n              number: ${HTTP_PORT}\n          weight: ${weight}\n`;
  return [
    head(API, 'VirtualService', service.name, service.namespace),
    `  hosts:\n    - ${service.host}\n  http:\n`,
    `    - match:\n        - headers:\n            x-canary:\n              exact: "${version}"\n      route:\n${to('v2', 100)}`,
    `    - match:\n        - uri:\n            prefix: /api/v1/\n      rewrite:\n        uri: /api/\n      timeout: 3s\n`,
    `      retries:\n        attempts: 3\n        perTryTimeout: 1s\n        retryOn: 5xx,connect-failure\n      route:\n${to('v1', 100)}`,
    `    - route:\n${to('v1', 90)}${to('v2', 10)}`,
  ].join('');
}

/** Routes of a service, in a document of another namespace: an edit changes that one alone. */
export function delegatedRoutes(service: ServiceRef, delegate: string, version: number): string {
  const to = `      route:\n        - destination:\n            host: ${service.host}\n            port:\n              number: ${HTTP_PORT}\n`;
  const name = `${service.name}-part`;
  return [
    head(API, 'VirtualService', `${service.name}-root`, service.namespace),
    `  hosts:\n    - ${service.host}\n  http:\n`,
    `    - match:\n        - uri:\n            prefix: /part/\n      delegate:\n        name: ${name}\n        namespace: ${delegate}\n`,
    `    -${to.slice(5)}`,
    '---\n',
    head(API, 'VirtualService', name, delegate),
    `  http:\n    - match:\n        - headers:\n            x-canary:\n              exact: "${version}"\n${to}    -${to.slice(5)}`,
  ].join('');
}

export function destinationRule(service: ServiceRef, version: number): string {
  return [
    head(API, 'DestinationRule', service.name, service.namespace),
    `  host: ${service.host}\n  trafficPolicy:\n    connectionPool:\n      tcp:\n        maxConnections: ${100 + version}\n`,
    '      http:\n        http1MaxPendingRequests: 64\n',
    '    outlierDetection:\n      consecutiveErrors: 5\n      interval: 10s\n      baseEjectionTime: 30s\n',
    '  subsets:\n    - name: v1\n      labels:\n        version: v1\n    - name: v2\n      labels:\n        version: v2\n',
  ].join('');
}

export function peerAuthentication(namespace: string): string {
  return `${head(SECURITY_API, 'PeerAuthentication', 'default', namespace)}  mtls:\n    mode: PERMISSIVE\n`;
}

export function authorizationPolicy(namespace: string): string {
  return [
    head(SECURITY_API, 'AuthorizationPolicy', 'allow-get', namespace),
    '  action: ALLOW\n  rules:\n    - to:\n        - operation:\n            methods:\n              - GET\n',
  ].join('');
}

/** Patches a listener of all proxies, and one virtual host. */
export function envoyFilter(service: ServiceRef, version: number): string {
  const listener = `        listener:\n          name: 0.0.0.0_${HTTP_PORT}\n`;
  const host = `        routeConfiguration:\n          vhost:\n            name: ${service.host}:${HTTP_PORT}\n`;
  const patch = (target: string, match: string, value: string): string =>
    `    - applyTo: ${target}\n      match:\n${match}      patch:\n        operation: MERGE\n        value:\n          ${value}\n`;
  return [
    head(API, 'EnvoyFilter', 'all', ROOT_NAMESPACE),
    '  configPatches:\n',
    patch('LISTENER', listener, `stat_prefix: version-${version}`),
    patch('VIRTUAL_HOST', host, `request_headers_to_remove: [x-version-${version}]`),
  ].join('');
}

/** A Sidecar for its whole namespace, which shows exactly these services. */
export function sidecar(namespace: string, services: readonly ServiceRef[]): string {
  const hosts = services.map(({ namespace: of, host }) => `        - ${of}/${host}\n`).join('');
  return `${head(API, 'Sidecar', 'default', namespace)}  egress:\n    - hosts:\n${hosts}`;
}
