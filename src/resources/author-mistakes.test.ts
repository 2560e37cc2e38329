import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parse } from 'yaml';
import { checkDocument } from './check.ts';
import { mesh, read } from './testing/parsed.ts';

const SECURITY = 'security.mesh.io/v1beta1';

function api(kind: string): string | undefined {
  return ['AuthorizationPolicy', 'RequestAuthentication'].includes(kind) ? SECURITY : undefined;
}

const gateway = (protocol: string, host: string) =>
  `{servers: [{port: {number: 443, name: a, protocol: ${protocol}}, hosts: ["${host}"], tls: {mode: SIMPLE, credentialName: c}}]}`;
const filterMatch = (applyTo: string, filter: string) =>
  `{configPatches: [{applyTo: ${applyTo}, match: {listener: {filterChain: {filter: ${filter}}}}, patch: {operation: REMOVE}}]}`;
const route = (fields: string) => `{hosts: [a.com], http: [{route: [{destination: {host: b}}], ${fields}}]}`;
const clientTls = (fields: string) => `{host: a, trafficPolicy: {tls: {${fields}, insecureSkipVerify: true}}}`;
const source = (fields: string) => `{rules: [{from: [{source: {${fields}}}]}]}`;
const dynamic = (fields: string) => `{resolution: DYNAMIC_DNS, ${fields}}`;
const probe = (header: string) => `{template: {}, probe: {httpGet: {port: 80, httpHeaders: [${header}]}}}`;

/** Each row: kind, spec, and the fields for which its author is refused. */
const ROWS: readonly (readonly [what: string, kind: string, spec: string, fields: readonly string[]])[] = [
  ['part of a label as wildcard of a TLS server', 'Gateway', gateway('HTTPS', 'ns/*a.com'), ['servers[0].hosts[0]']],
  ['a whole label as wildcard of a TLS server', 'Gateway', gateway('TLS', '*.a.com'), []],
  [
    'part of a label as wildcard of a server name',
    'VirtualService',
    '{hosts: ["*"], gateways: [g], tls: [{match: [{sniHosts: ["*a.com"]}], route: [{destination: {host: b}}]}]}',
    ['tls[0].match[0].sniHosts[0]'],
  ],
  [
    'part of a label as wildcard of imported hosts',
    'Sidecar',
    '{egress: [{hosts: ["ns/*a.com"]}]}',
    ['egress[0].hosts[0]'],
  ],
  ['a whole label as wildcard of imported hosts', 'Sidecar', '{egress: [{hosts: ["ns/*.a.com"]}]}', []],
  [
    'an authority that is set and rewritten',
    'VirtualService',
    route('rewrite: {authority: c}, headers: {request: {set: {":authority": d}}}'),
    ['http[0].headers.request.set[":authority"]'],
  ],
  [
    'an authority that is set and added',
    'VirtualService',
    route('headers: {request: {set: {Host: c}, add: {host: d}}}'),
    ['http[0].headers.request.add.host'],
  ],
  ['an authority that is set once', 'VirtualService', route('headers: {request: {set: {host: c}}}'), []],
  ['a filter without name', 'EnvoyFilter', filterMatch('NETWORK_FILTER', '{}'), [`${filterPath()}.name`]],
  [
    'a subfilter of a network filter',
    'EnvoyFilter',
    filterMatch('NETWORK_FILTER', '{name: a, subFilter: {name: b}}'),
    [`${filterPath()}.subFilter`],
  ],
  [
    'a subfilter in a filter other than the connection manager',
    'EnvoyFilter',
    filterMatch('HTTP_FILTER', '{name: a, subFilter: {name: b}}'),
    [`${filterPath()}.name`],
  ],
  [
    'a subfilter without name',
    'EnvoyFilter',
    filterMatch('HTTP_FILTER', '{name: envoy.http_connection_manager, subFilter: {}}'),
    [`${filterPath()}.subFilter.name`],
  ],
  ...['caCertificates: /ca', 'caCrl: /crl', 'credentialName: c', 'subjectAltNames: [a]'].map(
    (field) =>
      [
        `insecureSkipVerify beside ${field}`,
        'DestinationRule',
        clientTls(`mode: SIMPLE, ${field}`),
        [`trafficPolicy.tls.${field.split(':')[0]}`],
      ] as const,
  ),
  [
    "insecureSkipVerify beside the client's credential",
    'DestinationRule',
    clientTls('mode: MUTUAL, credentialName: c'),
    [],
  ],
  [
    'service accounts beside namespaces',
    'AuthorizationPolicy',
    source('serviceAccounts: [a/b], namespaces: [c]'),
    ['rules[0].from[0].source.serviceAccounts'],
  ],
  [
    'what is not a service account beside principals',
    'AuthorizationPolicy',
    source('notServiceAccounts: [a/b], principals: [c]'),
    ['rules[0].from[0].source.notServiceAccounts'],
  ],
  [
    'one unix socket in two listeners',
    'Sidecar',
    '{egress: [{port: {protocol: HTTP}, bind: "unix:///a", hosts: [./a]}, {port: {protocol: HTTP}, bind: "unix:///a", hosts: [./b]}]}',
    ['egress[1].bind'],
  ],
  [
    'an egress proxy with the default mode',
    'Sidecar',
    '{outboundTrafficPolicy: {egressProxy: {host: a, port: {number: 80}}}}',
    ['outboundTrafficPolicy.mode'],
  ],
  [
    'a dynamic host without wildcard',
    'ServiceEntry',
    dynamic('hosts: [a.com], ports: [{number: 80, name: http, protocol: HTTP}]'),
    ['hosts[0]'],
  ],
  [
    'a dynamic host with an address, whose clients do not name it',
    'ServiceEntry',
    dynamic('hosts: ["*.a.com"], addresses: [192.0.2.1], ports: [{number: 80, name: tcp, protocol: TCP}]'),
    ['addresses', 'ports[0].protocol'],
  ],
  ['a probe with a wrong header', 'WorkloadGroup', probe('{name: "**"}'), ['probe.httpGet.httpHeaders[0].name']],
  [
    'a probe with a header of two lines',
    'WorkloadGroup',
    probe('{name: a, value: "b\\nc"}'),
    ['probe.httpGet.httpHeaders[0].value'],
  ],
];

function filterPath(): string {
  return 'configPatches[0].match.listener.filterChain.filter';
}

describe('mistakes for which authors are refused, and stored documents are not', () => {
  for (const [what, kind, spec, fields] of ROWS) {
    test(`${kind}: ${what}${fields.length === 0 ? ' is not a mistake' : ''}`, () => {
      const yaml = mesh(kind, spec, api(kind));
      const checked = checkDocument(parse(yaml) as unknown);
      const expected = fields.map((field) => `spec.${field}`);
      assert.deepEqual(
        checked?.errors.map(({ field }) => field).filter((field) => expected.includes(field)),
        expected,
      );
      if (fields.length === 0) assert.deepEqual(checked?.errors, []);
      else assert.equal(checked?.stored, 'in force');
      const warned = read(yaml).warnings?.map(({ field }) => field) ?? [];
      for (const field of expected) assert.ok(warned.includes(field), `${field}: ${warned.join()}`);
    });
  }

  test('a value that may be a secret is not quoted', () => {
    const spec = probe('{name: "secret name", value: "secret\\nvalue"}');
    const { warnings = [] } = read(mesh('WorkloadGroup', spec));
    assert.equal(warnings.length, 2);
    assert.doesNotMatch(JSON.stringify(warnings), /secret/);
  });
});
