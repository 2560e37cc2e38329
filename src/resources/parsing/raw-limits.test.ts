import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DEFAULT_LIMITS, type DocumentLimit } from '../limits.ts';
import { parseResource } from './parse.ts';

/**
 * The check of the nesting reads each value once, as does that of the size of a patch's value. For refused policies the
 * first is repeated, and nulls are removed.
 */
const READS = { policy: 3, value: 2, other: 1 };

function document(kind: string, spec: object): object {
  const group = /Authorization|Authentication/.test(kind) ? 'security' : 'networking';
  const version = kind === 'EnvoyFilter' ? 'v1alpha3' : 'v1';
  return { apiVersion: `${group}.istio.io/${version}`, kind, metadata: { name: 'big', namespace: 'shop' }, spec };
}

function patch(applyTo: string, operation: string, value: object): object {
  return document('EnvoyFilter', { configPatches: [{ applyTo, patch: { operation, value } }] });
}

const parse = (raw: object) => parseResource(raw, { source: 'test' }, () => undefined);

/** Entry of a list with a field that no schema knows, which counts how often that is read. */
function entryThatCounts(): { readonly entry: object; reads: number } {
  const counter = {
    reads: 0,
    entry: Object.defineProperty({}, 'unknown', { enumerable: true, get: () => counter.reads++ }),
  };
  return counter;
}

type Make = (entries: readonly object[]) => object;

const LISTS: readonly (readonly [limit: DocumentLimit, kind: string, make: Make])[] = [
  ['rules', 'AuthorizationPolicy', (rules) => ({ rules })],
  ['subsets', 'DestinationRule', (subsets) => ({ host: 'web', subsets })],
  ['portSettings', 'DestinationRule', (portLevelSettings) => ({ host: 'web', trafficPolicy: { portLevelSettings } })],
  ['configPatches', 'EnvoyFilter', (configPatches) => ({ configPatches })],
  ['servers', 'Gateway', (servers) => ({ servers })],
  ['serverHosts', 'Gateway', (hosts) => ({ servers: [{ hosts }] })],
  ['jwtRules', 'RequestAuthentication', (jwtRules) => ({ jwtRules })],
  ['hostEndpoints', 'ServiceEntry', (endpoints) => ({ hosts: ['a.example'], endpoints })],
  ['serviceAddresses', 'ServiceEntry', (addresses) => ({ hosts: ['a.example'], addresses })],
  ['ingressListeners', 'Sidecar', (ingress) => ({ ingress })],
  ['egressListeners', 'Sidecar', (egress) => ({ egress })],
  ['egressHosts', 'Sidecar', (hosts) => ({ egress: [{ hosts }] })],
  ['routes', 'VirtualService', (http) => ({ hosts: ['web'], http })],
  ['matches', 'VirtualService', (match) => ({ hosts: ['web'], tls: [{ match }] })],
  ['destinations', 'VirtualService', (route) => ({ hosts: ['web'], tcp: [{ route }] })],
];

for (const [limit, kind, make] of LISTS) {
  test(`${kind} beyond the limit of ${limit} is refused before its schema reads the entries`, () => {
    const counter = entryThatCounts();
    const count = DEFAULT_LIMITS[limit] + 1;
    const parsed = parse(document(kind, make(Array.from({ length: count }, () => counter.entry))));
    assert.ok('problem' in parsed);
    assert.match(parsed.problem.message, new RegExp(`^expected at most ${count - 1} .*, got ${count};`));
    assert.equal(parsed.problem.key, `${kind}/shop/big`);
    const most = count * (/Authorization|Authentication/.test(kind) ? READS.policy : READS.other);
    assert.ok(counter.reads <= most, `${counter.reads} reads of ${count} entries`);
  });
}

test('a policy beyond a limit is replaced by a denial', () => {
  const parsed = parse(document('AuthorizationPolicy', { rules: Array.from({ length: 5001 }, () => ({})) }));
  assert.ok('problem' in parsed);
  assert.deepEqual(
    parsed.problem.substitutes?.map(({ content, namespace, name }) => [content, namespace, name]),
    [[{ action: 'DENY', rules: [{}] }, 'shop', 'big']],
  );
});

const struct = (fields: object) => ({ metadata: { filter_metadata: { a: fields } } });

test('a value that is too large for many resources is refused before its schema reads it', () => {
  for (const make of [
    (entry: object) => struct({ text: 'x'.repeat(256 * 1024), entry }),
    (entry: object) => struct({ ['x'.repeat(256 * 1024)]: 1, entry }),
    (entry: object) => struct({ items: Array.from({ length: 64 * 1024 }, () => 1), entry }),
    (entry: object) => struct(Object.fromEntries(Array.from({ length: 50_000 }, (_, i) => [`k${i}`, entry]))),
  ]) {
    const counter = entryThatCounts();
    const raw = patch('CLUSTER', 'MERGE', make(counter.entry));
    const entries = JSON.stringify(raw).split('"unknown"').length - 1;
    counter.reads = 0;
    const parsed = parse(raw);
    assert.ok('problem' in parsed);
    assert.equal(parsed.problem.field, 'spec.configPatches[0].patch.value');
    assert.match(parsed.problem.message, /^expected at most 65536 bytes, because it is merged into many resources/);
    assert.ok(counter.reads <= READS.value * entries, `${counter.reads} reads of ${entries} entries`);
  }
});

test('a value whose text is longer than 64 KiB is accepted if it is shorter when it is encoded', () => {
  const lb_endpoints = Array.from({ length: 400 }, (_, port_value) => ({
    endpoint: { address: { socket_address: { address: '10.0.0.1', port_value } } },
    load_balancing_weight: 1,
    health_status: 'HEALTHY',
  }));
  const value = {
    load_assignment: { cluster_name: 'a', endpoints: Array.from({ length: 3 }, () => ({ lb_endpoints })) },
  };
  assert.ok(JSON.stringify(value).length > 2 * 64 * 1024);
  assert.ok('resource' in parse(patch('CLUSTER', 'MERGE', value)));
});

test('a cluster that is added may be larger than a value that is merged', () => {
  const value = { name: 'added', ...struct({ text: 'x'.repeat(300 * 1024) }) };
  assert.ok('resource' in parse(patch('CLUSTER', 'ADD', value)));
});
