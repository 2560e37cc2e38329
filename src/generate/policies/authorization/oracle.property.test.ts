/** Random policies and random requests: Envoy's result with the generated filters equals the policies' meaning. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../../core/testing/properties.ts';
import { MeshReader } from '../../reads/index.ts';
import { guarded, policyOf } from '../../testing/authorization.ts';
import { isAllowed } from '../../testing/authorization-oracle.ts';
import { passes, type Request } from '../../testing/rbac.ts';
import type { HttpFilter } from '../types.ts';
import { connectionRules, requestRules } from './index.ts';

const TRUST_DOMAINS = ['td.example', 'old.example'];

const PRINCIPALS = [
  '*',
  'td.example/ns/a/sa/x',
  'old.example/ns/a/sa/x.y',
  'cluster.local/ns/b/sa/x',
  'cluster.local/ns/*',
  'other.org/ns/a/sa/x',
  '*example/ns/a/sa/x',
  '*/sa/x',
  '*/ns/a/sa/x',
  '*x',
  'td*',
  'td.example/*',
  'td.example/ns/a/sa/x*',
];
const NAMESPACES = ['*', 'a', 'b', 'a.b', 'a*', '*b', 'ns'];
const BLOCKS = ['10.0.0.0/8', '10.1.1.1', '::1', '0.0.0.0/0', 'fd00::/8'];
const HOSTS = ['*', 'a.b', 'A.B', '*.b', 'a.*', 'a.b:80', '*:80', '*b', 'a*'];
const PATHS = ['*', '/a', '/a*', '*.b', '/a.b', '/a/*', '*/b', '/a*b'];
const USERS = ['*', 'i/s', 'i/*', '*/s', 'i/j/s', 'i*', '*s', 'i/j/', 'i/', '/s', 'i/j/s*', '*j/s', 'ij*', '*/'];
const WORDS = ['*', 'ab', 'a*', '*b', 'a+b', 'a.b', 'abc', '*c'];

const some = (values: readonly string[]) => fc.uniqueArray(fc.constantFrom(...values), { minLength: 1, maxLength: 3 });

/** A few fields, each with a list of values. */
function fieldsOf(fields: Readonly<Record<string, readonly string[]>>) {
  const one = fc.constantFrom(...Object.entries(fields)).chain(([name, values]) =>
    fc.tuple(fc.boolean(), some(values)).map(([not, list]) => {
      const title = `${name[0]?.toUpperCase()}${name.slice(1)}`;
      return [not ? `not${title}` : name, list] as const;
    }),
  );
  return fc.array(one, { minLength: 1, maxLength: 3 }).map((entries) => Object.fromEntries(entries));
}

const source = fieldsOf({
  principals: PRINCIPALS,
  requestPrincipals: USERS,
  namespaces: NAMESPACES,
  serviceAccounts: ['x', 'a/x', 'b/x', 'a/x.y'],
  ipBlocks: BLOCKS,
  remoteIpBlocks: BLOCKS,
});
const operation = fieldsOf({ hosts: HOSTS, ports: ['80', '90'], methods: ['GET', 'P*', '*'], paths: PATHS });
const condition = fc
  .constantFrom<readonly [string, readonly string[]]>(
    ['request.headers[X-H]', WORDS],
    ['source.ip', BLOCKS],
    ['remote.ip', BLOCKS],
    ['source.namespace', NAMESPACES],
    ['source.principal', PRINCIPALS],
    ['source.serviceAccount', ['x', 'a/x']],
    ['request.auth.principal', USERS],
    ['request.auth.audiences', WORDS],
    ['request.auth.presenter', WORDS],
    ['request.auth.claims[c]', WORDS],
    ['request.auth.claims[d][e]', WORDS],
    ['destination.ip', BLOCKS],
    ['destination.port', ['80', '90']],
    ['connection.sni', WORDS],
  )
  .chain(([key, values]) =>
    fc.oneof(
      some(values).map((list) => ({ key, values: list })),
      some(values).map((list) => ({ key, notValues: list })),
      fc.tuple(some(values), some(values)).map(([list, not]) => ({ key, values: list, notValues: not })),
    ),
  );
const rule = fc.record(
  {
    from: fc.array(
      source.map((fields) => ({ source: fields })),
      { minLength: 1, maxLength: 2 },
    ),
    to: fc.array(
      operation.map((fields) => ({ operation: fields })),
      { minLength: 1, maxLength: 2 },
    ),
    when: fc.array(condition, { minLength: 1, maxLength: 2 }),
  },
  { requiredKeys: [] },
);
const policy = fc
  .tuple(fc.constantFrom('ALLOW', 'ALLOW', 'DENY', 'AUDIT'), fc.array(rule, { minLength: 1, maxLength: 2 }))
  .map(([action, rules]) => ({ action, rules }));

const maybe = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined });
const URIS = [
  'spiffe://td.example/ns/a/sa/x',
  'spiffe://old.example/ns/a/sa/x',
  'spiffe://td.example/ns/a/sa/x.y',
  'spiffe://td.example/ns/a/sa/xay',
  'spiffe://td.example/ns/b/sa/x',
  'spiffe://cluster.local/ns/b/sa/x',
  'spiffe://other.org/ns/a/sa/x',
  'spiffe://td.example/ns/axb/sa/ns',
  'spiffe://ns.a.sa/ns/b/sa/a',
  'spiffe://td.example/ns/c/sa/x/ns/a/sa/x',
  'https://td.example/ns/a/sa/x',
];
const word = fc.constantFrom('ab', 'a', 'b', 'a+b', 'aab', 'a.b', 'axb', 'abc', '', 'x, ab', 'ab,x', 'c');
const claimValue = fc.oneof(word, fc.array(word, { maxLength: 2 }), fc.constantFrom(7, true));
const token = fc.record(
  {
    iss: fc.constantFrom('i', 'i/j', 'ij', 'i/'),
    sub: fc.constantFrom('s', 'j/s', '', 's/s', 'j/'),
    aud: claimValue,
    azp: word,
    c: claimValue,
    d: fc.oneof(
      word,
      claimValue.map((e) => ({ e })),
    ),
  },
  { requiredKeys: ['iss'] },
);
const address = fc.constantFrom('10.1.1.1', '10.2.2.2', '192.0.2.1', '::1', 'fd00::2');
const request: fc.Arbitrary<Request> = fc
  .record({
    peer: maybe(fc.uniqueArray(fc.constantFrom(...URIS), { maxLength: 2 })),
    from: address,
    client: maybe(address),
    to: address,
    port: fc.constantFrom(80, 90),
    sni: maybe(word),
    method: fc.constantFrom('GET', 'PUT', 'get'),
    host: fc.constantFrom(
      'a.b',
      'A.b',
      'a.b:80',
      'a.b:90',
      'a.b.',
      'a.b.:80',
      'a.b..',
      '%61.b',
      'c%2ed:80',
      'x.a.b',
      'x@a.b',
      'c,a.b',
      'a.b,c',
      'a.b:80,c',
      'a.b:x',
      'axb',
      'a.c',
      'a.b:',
    ),
    path: fc.constantFrom(
      '/',
      '/a',
      '/a?b=/a.b',
      '/a.b',
      '/axb',
      '/a/b',
      '/a*b',
      '/A',
      '/c/b',
      '/a;x',
      '/;/a',
      '/;x/a/b',
      '/a;x/b',
      '/a;x;y/;/b;z',
      '/a/..;x/b',
      '/c;/b',
    ),
    headers: fc.array(
      word.map((value) => ['x-h', value] as const),
      { maxLength: 2 },
    ),
    token: maybe(token),
  })
  .map((fields) => Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)));

test('the generated filters decide about requests and connections as the policies say', () => {
  fc.assert(
    fc.property(
      fc.array(policy, { minLength: 1, maxLength: 3 }),
      fc.array(request, { minLength: 8, maxLength: 8 }),
      (specs, requests) => {
        const resources = specs.map((spec, index) => policyOf({ name: `p${index}`, namespace: 'a', spec }));
        const { snapshot, view } = guarded(resources, {
          namespace: 'a',
          mesh: { trustDomainAliases: TRUST_DOMAINS.slice(1) },
          settings: { trustDomain: TRUST_DOMAINS[0] ?? '' },
        });
        const policies = resources.flatMap((resource) =>
          resource.kind === 'AuthorizationPolicy' ? [{ namespace: 'a', spec: resource.content }] : [],
        );
        const { external, local } = requestRules(MeshReader.of(snapshot), view);
        const filters: readonly (readonly [boolean, readonly HttpFilter[]])[] = [
          [false, [...external, ...local]],
          [true, connectionRules(MeshReader.of(snapshot), view).filters],
        ];
        for (const request of requests) {
          for (const [tcp, list] of filters) {
            const expected = isAllowed(policies, request, { tcp, trustDomains: TRUST_DOMAINS });
            assert.equal(
              passes(list, request),
              expected,
              `${tcp ? 'connection' : 'request'} ${JSON.stringify(request)}`,
            );
          }
        }
      },
    ),
    { numRuns: 500 },
  );
});
