import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkDocument } from './check.ts';
import { DEFAULT_LIMITS, type DocumentLimit, documentLimits } from './limits.ts';

const many = <T>(count: number, make: (index: number) => T): T[] => Array.from({ length: count }, (_, i) => make(i));

function document(kind: string, spec: object): object {
  const group = /Authorization|Authentication/.test(kind) ? 'security' : 'networking';
  const version = group === 'security' ? 'v1beta1' : 'v1alpha3';
  return { apiVersion: `${group}.mesh.io/${version}`, kind, metadata: { name: 'big', namespace: 'shop' }, spec };
}

const destination = { destination: { host: 'web' } };
const route = [destination];
const egress = (count: number, hosts: readonly string[]) =>
  many(count, (index) => ({ port: { number: index + 1, protocol: 'HTTP', name: `p${index}` }, hosts }));
const names = (count: number) => many(count, (index) => `h${index}.example.com`);
const web = { number: 80, name: 'http', protocol: 'HTTP' };
const admin = { number: 81, name: 'admin', protocol: 'HTTP' };
const server = (index: number, hosts: readonly string[]) => {
  return { port: { number: index + 1, protocol: 'HTTP', name: `p${index}` }, hosts };
};
const prefix = (index: number) => ({ uri: { prefix: `/${index}` } });
const ofWeb = (spec: object) => document('VirtualService', { hosts: ['web'], ...spec });

function withMetadata(more: object): object {
  return { ...ofWeb({ http: [{ route }] }), metadata: { name: 'big', namespace: 'shop', ...more } };
}

/** A document that asks for so many of what a limit counts, and the field that is named. */
const DOCUMENTS: Readonly<Partial<Record<DocumentLimit, readonly [field: string, make: (count: number) => object]>>> = {
  labels: [
    'metadata.labels',
    (count) => withMetadata({ labels: Object.fromEntries(many(count, (index) => [`l${index}`, 'x'])) }),
  ],
  annotations: [
    'metadata.annotations',
    (count) => withMetadata({ annotations: Object.fromEntries(many(count, (index) => [`a${index}`, 'x'])) }),
  ],
  configPatches: [
    'spec.configPatches',
    (count) => {
      const patch = { applyTo: 'CLUSTER', patch: { operation: 'MERGE', value: { connect_timeout: '1s' } } };
      return document('EnvoyFilter', { configPatches: many(count, () => patch) });
    },
  ],
  egressListeners: ['spec.egress', (count) => document('Sidecar', { egress: egress(count, ['./*']) })],
  ingressListeners: [
    'spec.ingress',
    (count) => {
      const listener = (index: number) => ({ port: server(index, []).port, defaultEndpoint: '127.0.0.1:80' });
      return document('Sidecar', { ingress: many(count, listener) });
    },
  ],
  egressHosts: [
    'spec.egress',
    (count) => {
      const hosts = many(count - 1, (index) => `./h${index}.example.com`);
      return document('Sidecar', { egress: [...egress(1, ['./*']), { hosts }] });
    },
  ],
  subsets: [
    'spec.subsets',
    (count) => {
      const subsets = many(count, (index) => ({ name: `v${index}`, labels: { version: `v${index}` } }));
      return document('DestinationRule', { host: 'web', subsets });
    },
  ],
  portSettings: [
    'spec.trafficPolicy.portLevelSettings',
    (count) => {
      const portLevelSettings = many(count, (index) => ({ port: { number: index + 1 }, tls: { mode: 'DISABLE' } }));
      return document('DestinationRule', { host: 'web', trafficPolicy: { portLevelSettings } });
    },
  ],
  virtualServiceHosts: [
    'spec.hosts',
    (count) =>
      document('VirtualService', { hosts: many(count, (index) => `h${index}.example.com`), http: [{ route }] }),
  ],
  routes: ['spec.http', (count) => ofWeb({ http: many(count, (index) => ({ match: [prefix(index)], route })) })],
  matches: ['spec.http', (count) => ofWeb({ http: [{ match: many(count, prefix), route }] })],
  destinations: [
    'spec.tcp',
    (count) => {
      const weighted = many(count, (index) => ({ ...destination, weight: index === 0 ? 100 : 0 }));
      return ofWeb({ tcp: [{ route: weighted }] });
    },
  ],
  hostRoutes: [
    'spec.http',
    (count) => {
      const hosts = many(100, (index) => `h${index}.example.com`);
      const http = many(Math.ceil(count / 100), (index) => ({ match: [prefix(index)], route }));
      return document('VirtualService', { hosts, http });
    },
  ],
  servers: [
    'spec.servers',
    (count) =>
      document('Gateway', { selector: { app: 'edge' }, servers: many(count, (index) => server(index, ['*'])) }),
  ],
  serverHosts: [
    'spec.servers',
    (count) => {
      const hosts = many(count, (index) => `h${index}.example.com`);
      return document('Gateway', { selector: { app: 'edge' }, servers: [server(80, hosts)] });
    },
  ],
  serviceHosts: [
    'spec.hosts',
    (count) => {
      const hosts = many(count, (index) => `h${index}.example.com`);
      const ports = [{ number: 80, name: 'http', protocol: 'HTTP' }];
      return document('ServiceEntry', { hosts, ports, resolution: 'DNS' });
    },
  ],
  serviceAddresses: [
    'spec.addresses',
    (count) => {
      const addresses = many(count, (index) => `10.${index >> 16}.${(index >> 8) & 255}.${index & 255}`);
      const ports = [{ number: 80, name: 'tcp', protocol: 'TCP' }];
      return document('ServiceEntry', { hosts: ['a.example.com'], addresses, ports, resolution: 'DNS' });
    },
  ],
  hostAddresses: [
    'spec.addresses',
    (count) => {
      const addresses = many(Math.ceil(count / 100), (index) => `10.1.${index >> 8}.${index & 255}`);
      return document('ServiceEntry', { hosts: names(100), addresses, ports: [web], resolution: 'DNS' });
    },
  ],
  hostEndpoints: [
    'spec.endpoints',
    (count) => {
      const endpoints = many(Math.ceil(count / 100), (index) => ({ address: `10.1.${index >> 8}.${index & 255}` }));
      return document('ServiceEntry', { hosts: names(50), ports: [web, admin], endpoints, resolution: 'STATIC' });
    },
  ],
  rules: [
    'spec.rules',
    (count) => {
      const rule = (index: number) => ({ from: [{ source: { namespaces: [`n${index}`] } }] });
      return document('AuthorizationPolicy', { rules: many(count, rule) });
    },
  ],
  jwtRules: [
    'spec.jwtRules',
    (count) => {
      const rule = (index: number) => ({ issuer: `i${index}`, jwksUri: 'https://keys.example.com' });
      return document('RequestAuthentication', { jwtRules: many(count, rule) });
    },
  ],
  regexes: [
    'spec.http[0].match[5000].headers.x-even.regex',
    (count) => {
      const header = (index: number) => [`x-${index % 2 === 0 ? 'even' : 'odd'}`, { regex: `a${index}` }];
      const headers = (index: number) => many(Math.min(2, count - 2 * index), (each) => header(2 * index + each));
      const match = many(Math.ceil(count / 2), (index) => ({ headers: Object.fromEntries(headers(index)) }));
      return ofWeb({ http: [{ match, route }] });
    },
  ],
  regexSteps: [
    'spec.http[0].match[1000].uri.regex',
    (count) => {
      // One step for each character, and six.
      const large = many(Math.floor(count / 1000), () => 'a'.repeat(994));
      const match = [...large, ...(count % 1000 > 0 ? ['a'] : [])].map((regex) => ({ uri: { regex } }));
      return ofWeb({ http: [{ match, route }] });
    },
  ],
  versionRegexes: [
    'spec.configPatches[200].match.proxy.proxyVersion',
    (count) => {
      const patch = { operation: 'MERGE', value: { connect_timeout: '1s' } };
      const of = (index: number) => ({ proxy: { proxyVersion: `^1\\.7\\.${index}$` } });
      const configPatches = many(2 * count, (index) => ({
        applyTo: 'CLUSTER',
        match: of(Math.floor(index / 2)),
        patch,
      }));
      return document('EnvoyFilter', { configPatches });
    },
  ],
};

for (const [name, entry] of Object.entries(DOCUMENTS)) {
  const limit = DEFAULT_LIMITS[name as DocumentLimit];
  const [field, make] = entry;

  test(`${name}: ${limit} are accepted, more are refused, and a factor raises the limit`, () => {
    assert.deepEqual(checkDocument(make(limit))?.errors, []);
    const [error, ...others] = checkDocument(make(limit + 1))?.errors ?? [];
    assert.deepEqual([error?.field, others], [field, []]);
    assert.match(
      error?.message ?? '',
      new RegExp(`^expected at most ${limit} [^,;]*(, got \\d+| in one document); .*CTL_DOCUMENT_LIMIT_FACTOR`),
    );
    assert.deepEqual(checkDocument(make(limit + 1), documentLimits(2))?.errors, []);
  });
}

test('a factor below 1 lowers limits, to 1 at least', () => {
  assert.equal(documentLimits(0.5).subsets, DEFAULT_LIMITS.subsets / 2);
  assert.equal(documentLimits(1e-9).subsets, 1);
});

test('the hosts of a VirtualService beyond the limit are not checked', () => {
  const hosts = many(DEFAULT_LIMITS.virtualServiceHosts + 1, () => 'not a host');
  const errors = checkDocument(document('VirtualService', { hosts, http: [{ route }] }))?.errors ?? [];
  assert.deepEqual(
    errors.map(({ field }) => field),
    ['spec.hosts'],
  );
});
