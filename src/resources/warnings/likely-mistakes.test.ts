import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parse } from 'yaml';
import { checkDocument } from '../index.ts';

/** The warnings about a document of the networking kinds, `field: message`. */
function warnings(kind: string, spec: string): string[] {
  const document = {
    apiVersion: 'networking.mesh.io/v1alpha3',
    kind,
    metadata: { name: 'a', namespace: 'n' },
    spec: parse(spec) as unknown,
  };
  const checked = checkDocument(document);
  assert.deepEqual(checked?.errors, []);
  return checked.warnings.map(({ field, message }) => `${field}: ${message}`);
}

const routes = (...http: string[]) => `{hosts: [a.b], http: [${http.join(', ')}]}`;
const to = 'route: [{destination: {host: a.b}}]';
const split = (first: string, second: string) =>
  `{route: [{destination: {host: a.b}${first}}, {destination: {host: c.d}${second}}]}`;
const entry = (fields: string) => `{hosts: [a.b], resolution: DNS, ${fields}}`;
const server = (port: string) => `{servers: [{hosts: ['*'], port: {${port}}, tls: {mode: PASSTHROUGH}}]}`;

const ALL_WORKLOADS = /^spec\.workloadSelector: it has no labels: the document applies to all workloads$/;

const likely: readonly [what: string, kind: string, spec: string, expected: RegExp][] = [
  [
    'a route behind one without matches',
    'VirtualService',
    routes(`{${to}}`, `{match: [{uri: {exact: /a}}], ${to}}`),
    /^spec\.http\[1\]: never reached: http\[0\] matches every request$/,
  ],
  [
    'a route behind one that matches every path',
    'VirtualService',
    routes(`{match: [{method: {exact: GET}}, {uri: {prefix: /}}], ${to}}`, `{${to}}`),
    /^spec\.http\[1\]: never reached: http\[0\]/,
  ],
  [
    'a match that an earlier route has',
    'VirtualService',
    routes(`{match: [{uri: {exact: /a}}], ${to}}`, `{match: [{name: b, uri: {exact: /a}}], ${to}}`),
    /^spec\.http\[1\]\.match\[0\]: never reached: it duplicates http\[0\]\.match\[0\]$/,
  ],
  [
    'one of several destinations without a weight',
    'VirtualService',
    routes(split(', weight: 1', '')),
    /^spec\.http\[0\]\.route\[1\]: receives no requests/,
  ],
  [
    'an attempt as long as the whole request',
    'VirtualService',
    routes(`{timeout: 1s, retries: {attempts: 2, perTryTimeout: 1s}, ${to}}`),
    /^spec\.http\[0\]\.retries\.perTryTimeout: expected less/,
  ],
  ['a selector without labels', 'DestinationRule', '{host: a.b, workloadSelector: {}}', ALL_WORKLOADS],
  ['a selector without labels', 'EnvoyFilter', '{workloadSelector: {}}', ALL_WORKLOADS],
  ['a selector without labels', 'Sidecar', '{workloadSelector: {}, egress: [{hosts: ["*/*"]}]}', ALL_WORKLOADS],
  [
    'a selector without labels',
    'ServiceEntry',
    '{hosts: [a.b], resolution: STATIC, workloadSelector: {labels: {}}}',
    ALL_WORKLOADS,
  ],
  [
    'a static service without endpoints',
    'ServiceEntry',
    '{hosts: [a.b], resolution: STATIC}',
    /^spec\.endpoints: .*503$/,
  ],
  [
    'a redirect to HTTPS of requests by HTTPS',
    'Gateway',
    "{servers: [{hosts: ['*'], port: {number: 443, name: a, protocol: HTTPS}, tls: {mode: PASSTHROUGH, httpsRedirect: true}}]}",
    /^spec\.servers\[0\]\.tls\.httpsRedirect: no effect/,
  ],
  [
    'an endpoint of a Gateway',
    'Gateway',
    "{servers: [{hosts: ['*'], port: {number: 80, name: a, protocol: HTTP}, defaultEndpoint: '127.0.0.1:80'}]}",
    /^spec\.servers\[0\]\.defaultEndpoint: no effect/,
  ],
  [
    'another port behind a port of a Sidecar',
    'Sidecar',
    "{egress: [{hosts: ['*/*'], port: {number: 80, name: a, protocol: HTTP, targetPort: 81}}]}",
    /^spec\.egress\[0\]\.port\.targetPort: no effect/,
  ],
  [
    'CA certificates of one of several certificates',
    'Gateway',
    "{servers: [{hosts: ['*'], port: {number: 443, name: a, protocol: HTTPS}, tls: {mode: SIMPLE, tlsCertificates: [{serverCertificate: /c, privateKey: /k, caCertificates: /a}]}}]}",
    /^spec\.servers\[0\]\.tls\.tlsCertificates\[0\]\.caCertificates: no effect/,
  ],
  [
    'a patch for waypoints',
    'EnvoyFilter',
    '{configPatches: [{applyTo: CLUSTER, match: {context: WAYPOINT, waypoint: {}}, patch: {operation: REMOVE}}]}',
    /^spec\.configPatches\[0\]\.match\.context: waypoint proxies are not supported/,
  ],
  [
    'a patch for the service of a waypoint',
    'EnvoyFilter',
    '{targetRefs: [{kind: Service, name: a}]}',
    /^spec\.targetRefs\[0\]: a reference to a Service is for waypoint proxies/,
  ],
  [
    'a cluster at a place among others',
    'EnvoyFilter',
    '{configPatches: [{applyTo: CLUSTER, patch: {operation: INSERT_FIRST, value: {name: a}}}]}',
    /^spec\.configPatches\[0\]\.patch\.operation: not supported in this version/,
  ],
  [
    'a range of sources',
    'VirtualService',
    '{hosts: [a.b], tcp: [{match: [{sourceSubnet: 10.0.0.0/8}], route: [{destination: {host: a.b}}]}]}',
    /^spec\.tcp\[0\]\.match\[0\]\.sourceSubnet: no effect at sidecars/,
  ],
  [
    'a delay that grows',
    'VirtualService',
    '{hosts: [a.b], http: [{fault: {delay: {exponentialDelay: 1s}}, route: [{destination: {host: a.b}}]}]}',
    /^spec\.http\[0\]\.fault\.delay\.exponentialDelay: no effect: Envoy injects fixed delays only/,
  ],
  [
    'another port of dynamic names',
    'ServiceEntry',
    "{hosts: ['*.a.b'], resolution: DYNAMIC_DNS, ports: [{number: 80, name: http, protocol: HTTP, targetPort: 81}]}",
    /^spec\.ports\[0\]\.targetPort: no effect with resolution DYNAMIC_DNS: proxies connect to port 80/,
  ],
  [
    'an idle timeout of connections to the application',
    'Sidecar',
    '{inboundConnectionPool: {http: {h2UpgradePolicy: UPGRADE, maxRetries: 5}}}',
    /^spec\.inboundConnectionPool\.http\.h2UpgradePolicy: no effect/,
  ],
  [
    'another protocol for the application',
    'Sidecar',
    '{ingress: [{port: {number: 80, name: a, protocol: HTTP}, connectionPool: {http: {h2UpgradePolicy: UPGRADE}}}]}',
    /^spec\.ingress\[0\]\.connectionPool\.http\.h2UpgradePolicy: no effect/,
  ],
  [
    'plain HTTP on the port of HTTPS',
    'Gateway',
    '{servers: [{hosts: ["*"], port: {number: 443, name: a, protocol: HTTP}}]}',
    /^spec\.servers\[0\]\.port\.protocol: HTTP on port 443 is plain text/,
  ],
  [
    'HTTPS on the port of plain HTTP',
    'Gateway',
    server('number: 80, name: a, protocol: HTTPS'),
    /^spec\.servers\[0\]\.port\.protocol: HTTPS on port 80/,
  ],
  [
    'connections to an external host without addresses',
    'ServiceEntry',
    entry('ports: [{number: 5432, name: db, protocol: TCP}]'),
    /^spec\.ports\[0\]: without addresses, it matches TCP connections to port 5432 of any address$/,
  ],
  [
    'a subset without labels',
    'DestinationRule',
    '{host: a.b, subsets: [{name: v1}]}',
    /^spec\.subsets\[0\]: subset "v1" has no labels/,
  ],
];
for (const [what, kind, spec, expected] of likely) {
  test(`a ${kind} with ${what} is accepted with a warning`, () => {
    const [first, ...more] = warnings(kind, spec);
    assert.match(first ?? 'no warning', expected);
    assert.deepEqual(more, []);
  });
}

const meant: readonly [what: string, kind: string, spec: string][] = [
  ['a last route without matches', 'VirtualService', routes(`{match: [{uri: {exact: /a}}], ${to}}`, `{${to}}`)],
  [
    'a match of every path at one gateway',
    'VirtualService',
    `{gateways: [g, mesh], ${routes(`{match: [{uri: {prefix: /}, gateways: [g]}], ${to}}`, `{${to}}`).slice(1)}`,
  ],
  ['a weight of 0', 'VirtualService', routes(split(', weight: 100', ', weight: 0'))],
  [
    'attempts that are shorter',
    'VirtualService',
    routes(`{timeout: 3s, retries: {attempts: 2, perTryTimeout: 1s}, ${to}}`),
  ],
  ['HTTP on another port', 'Gateway', '{servers: [{hosts: ["*"], port: {number: 8080, name: a, protocol: HTTP}}]}'],
  ['addresses', 'ServiceEntry', entry('addresses: [192.0.2.1], ports: [{number: 5432, name: db, protocol: TCP}]')],
  ['a protocol with names', 'ServiceEntry', entry('ports: [{number: 443, name: a, protocol: TLS}]')],
  ['labels', 'DestinationRule', '{host: a.b, subsets: [{name: v1, labels: {version: v1}}]}'],
];
for (const [what, kind, spec] of meant) {
  test(`a ${kind} with ${what} causes no warning`, () => assert.deepEqual(warnings(kind, spec), []));
}
