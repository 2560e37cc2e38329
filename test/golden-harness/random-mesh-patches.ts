/**
 * EnvoyFilters of the random mesh: every place that a patch can be for, in ways that depend on the proxy, on names of
 * ports, and on each other's order. All of them fit whatever else the mesh has.
 */
import { mesh } from './random-mesh-texts.ts';

const BUFFER = 'type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer';
const MANAGER = 'envoy.filters.network.http_connection_manager';

function patches(namespace: string, name: string, list: readonly string[], more = ''): string {
  return mesh('EnvoyFilter', namespace, name, `{${more}configPatches: [${list.join()}]}`);
}

/** @param match in JSON, with its braces */
function patch(applyTo: string, match: string, operation: string, value = '', more = ''): string {
  const made = value === '' ? '' : `, value: ${value}`;
  return `{applyTo: ${applyTo}, match: ${match}, patch: {operation: ${operation}${made}${more}}}`;
}

function buffer(name: string, bytes: number): string {
  return `{name: ${name}, typed_config: {'@type': ${BUFFER}, max_request_bytes: ${bytes}}}`;
}

/** A filter that Envoy requests the configuration of. */
function discovered(name: string): string {
  const source = `{ads: {}, initial_fetch_timeout: 1s}`;
  const value = `{name: ${name}, config_discovery: {config_source: ${source}, type_urls: [${BUFFER}]}}`;
  return patch('HTTP_FILTER', `{listener: {filterChain: {filter: {name: ${MANAGER}}}}}`, 'INSERT_FIRST', value);
}

const extension = (match: string, name: string, bytes: number): string =>
  patch('EXTENSION_CONFIG', match, 'ADD', buffer(name, bytes));
const byClass = (match: string, filterClass: string, bytes: number): string =>
  patch('HTTP_FILTER', match, 'ADD', buffer(filterClass.toLowerCase(), bytes), `, filterClass: ${filterClass}`);
const host = (vhost: string, value: string, operation = 'MERGE'): string =>
  patch('VIRTUAL_HOST', `{routeConfiguration: {${vhost}}}`, operation, value);

const GOLD = '{proxy: {metadata: {TIER: gold}}}';

/** Each slot is one resource: absent, or in one of these forms. */
export const PATCH_SLOTS: readonly (readonly string[])[] = [
  // Extension configurations: of two with one name, the root namespace's counts.
  [
    patches('a', 'extensions', [discovered('limits'), extension('{}', 'limits', 1)]),
    patches('a', 'extensions', [extension('{context: SIDECAR_INBOUND}', 'limits', 2)]),
    patches('a', 'extensions', [extension(GOLD, 'limits', 3), extension('{}', 'others', 4)]),
    patches(
      'a',
      'extensions',
      [extension('{}', 'limits', 5)],
      'priority: -1, workloadSelector: {labels: {app: web}}, ',
    ),
  ],
  [
    patches('mesh-system', 'extensions', [extension('{}', 'limits', 6)]),
    patches('mesh-system', 'extensions', [discovered('others'), extension('{context: GATEWAY}', 'others', 7)]),
    patches('mesh-system', 'extensions', [extension("{proxy: {proxyVersion: '^1\\.7.*'}}", 'limits', 8)]),
  ],
  // What is chosen by the metadata of proxies, and by the order among filters.
  [
    patches('a', 'chosen', [byClass(GOLD, 'AUTHZ', 9)]),
    patches('a', 'chosen', [byClass('{context: SIDECAR_INBOUND}', 'AUTHN', 10)], 'priority: 5, '),
    patches('a', 'chosen', [byClass('{proxy: {metadata: {TIER: other}}}', 'STATS', 11)]),
    patches('a', 'chosen', [patch('CLUSTER', GOLD, 'MERGE', '{connect_timeout: 9s}')]),
  ],
  [
    patches('b', 'chosen', [byClass('{context: GATEWAY, listener: {portName: http}}', 'AUTHN', 12)]),
    patches(
      'b',
      'chosen',
      [patch('FILTER_CHAIN', '{listener: {filterChain: {sni: e.example.com}}}', 'MERGE', '{metadata: {}}')],
      'workloadSelector: {labels: {app: edge}}, ',
    ),
    patches('b', 'chosen', [
      patch(
        'LISTENER_FILTER',
        '{context: GATEWAY, listener: {portName: HTTP}}',
        'INSERT_FIRST',
        "{name: envoy.filters.listener.proxy_protocol, typed_config: {'@type': type.googleapis.com/envoy.extensions.filters.listener.proxy_protocol.v3.ProxyProtocol}}",
      ),
    ]),
  ],
  [
    patches('mesh-system', 'listeners', [
      patch('LISTENER_FILTER', '{listener: {listenerFilter: envoy.filters.listener.tls_inspector}}', 'REMOVE'),
    ]),
    patches('mesh-system', 'listeners', [
      patch('LISTENER', '{listener: {portName: http-80}}', 'MERGE', '{per_connection_buffer_limit_bytes: 9}'),
    ]),
    patches('mesh-system', 'listeners', [
      patch('FILTER_CHAIN', '{listener: {filterChain: {destinationPort: 81}}}', 'REMOVE'),
    ]),
  ],
  // Virtual hosts, which some proxies discover one by one.
  [
    patches('a', 'hosts', [host('vhost: {name: "web.a.svc.cluster.local:80"}', '{require_tls: ALL}')]),
    patches('a', 'hosts', [host('portName: http-80', '{include_request_attempt_count: false}')]),
    patches('a', 'hosts', [host('name: "80"', '{name: added, domains: [added.test], routes: []}', 'ADD')]),
    patches('a', 'hosts', [host('vhost: {domainName: n003.bulk.test}', '', 'REMOVE')]),
  ],
  [
    patches('mesh-system', 'hosts', [
      patch(
        'HTTP_ROUTE',
        '{routeConfiguration: {vhost: {domainName: n001.bulk.test}}}',
        'MERGE',
        '{request_headers_to_remove: [x-a]}',
      ),
    ]),
    patches('mesh-system', 'hosts', [
      patch(
        'ROUTE_CONFIGURATION',
        '{context: SIDECAR_OUTBOUND, routeConfiguration: {portNumber: 80}}',
        'MERGE',
        '{request_headers_to_remove: [x-b]}',
      ),
    ]),
    patches('mesh-system', 'hosts', [
      patch(
        'HTTP_ROUTE',
        '{context: SIDECAR_OUTBOUND}',
        'INSERT_FIRST',
        '{name: first, match: {path: /first}, direct_response: {status: 200}}',
      ),
    ]),
  ],
  [
    patches('a', 'clusters', [patch('CLUSTER', '{cluster: {subset: v1}}', 'MERGE', '{connect_timeout: 8s}')]),
    patches('a', 'clusters', [
      patch('CLUSTER', '{cluster: {service: api.b.svc.cluster.local, portNumber: 80}}', 'REMOVE'),
    ]),
    patches('a', 'clusters', [
      patch('CLUSTER', '{context: SIDECAR_OUTBOUND, cluster: {portNumber: 80}}', 'MERGE', '{connect_timeout: 6s}'),
    ]),
  ],
];
