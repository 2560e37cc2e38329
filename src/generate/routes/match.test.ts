import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { contextOf, NO_LOOKUPS, routesOf, TO_REVIEWS } from '../testing/routes.ts';
import { appliesHere } from './match.ts';

function matchOf(match: unknown) {
  return routesOf([{ match: [match], route: TO_REVIEWS }])[0]?.match;
}

describe('which conditions Envoy compares', () => {
  const rows: readonly [behaviour: string, match: unknown, expected: unknown][] = [
    ['an exact path', { uri: { exact: '/a' } }, { path: '/a' }],
    ['a path prefix', { uri: { prefix: '/a' } }, { prefix: '/a' }],
    ['a path regex', { uri: { regex: '/a/[0-9]+' } }, { safeRegex: { regex: '/a/[0-9]+' } }],
    [
      'a prefix without case',
      { uri: { prefix: '/A' }, ignoreUriCase: true },
      { prefix: '/A', caseSensitive: { value: false } },
    ],
    [
      'a regex whatever ignoreUriCase says: Envoy knows it for literals only',
      { uri: { regex: '/a.*' }, ignoreUriCase: true },
      { safeRegex: { regex: '/a.*' } },
    ],
    [
      'the method',
      { method: { exact: 'GET' } },
      { prefix: '/', headers: [{ name: ':method', stringMatch: { exact: 'GET' } }] },
    ],
    [
      'the authority',
      { authority: { prefix: 'a.' } },
      { prefix: '/', headers: [{ name: ':authority', stringMatch: { prefix: 'a.' } }] },
    ],
    [
      'the scheme',
      { scheme: { exact: 'https' } },
      { prefix: '/', headers: [{ name: ':scheme', stringMatch: { exact: 'https' } }] },
    ],
    [
      'headers in the order of their names',
      { headers: { b: { exact: '1' }, a: { regex: '[0-9]+' } } },
      {
        prefix: '/',
        headers: [
          { name: 'a', stringMatch: { safeRegex: { regex: '[0-9]+' } } },
          { name: 'b', stringMatch: { exact: '1' } },
        ],
      },
    ],
    ['a header that is there', { headers: { a: {} } }, { prefix: '/', headers: [{ name: 'a', presentMatch: true }] }],
    [
      'a header with any value',
      { headers: { a: { regex: '*' } } },
      { prefix: '/', headers: [{ name: 'a', presentMatch: true }] },
    ],
    [
      'a header that is not there',
      { withoutHeaders: { a: {} } },
      { prefix: '/', headers: [{ name: 'a', presentMatch: true, invertMatch: true }] },
    ],
    [
      'a header without a value: passes also when it is missing',
      { withoutHeaders: { a: { exact: 'x' } } },
      {
        prefix: '/',
        headers: [{ name: 'a', stringMatch: { exact: 'x' }, invertMatch: true, treatMissingHeaderAsEmpty: true }],
      },
    ],
    [
      'query parameters',
      { queryParams: { q: { exact: 'x' } } },
      { prefix: '/', queryParameters: [{ name: 'q', stringMatch: { exact: 'x' } }] },
    ],
  ];
  for (const [behaviour, match, expected] of rows) {
    test(behaviour, () => assert.deepEqual(matchOf(match), expected));
  }
});

describe('which matches apply at all', () => {
  const lookups = {
    ...NO_LOOKUPS,
    isFrom: (namespace: string) => namespace === 'shop',
    hasLabels: (labels: Readonly<Record<string, string>>) => labels.app === 'web',
  };
  const mesh = contextOf({ lookups, port: 80 });
  const gateway = contextOf({ lookups, port: 80, gateway: 'edge/gw' });
  const rows: readonly [behaviour: string, match: Parameters<typeof appliesHere>[0], context: typeof mesh, boolean][] =
    [
      ['nothing said', {}, mesh, true],
      ['the port', { port: 80 }, mesh, true],
      ['another port', { port: 81 }, mesh, false],
      ['source labels of the workload', { sourceLabels: { app: 'web' } }, mesh, true],
      ['source labels of others', { sourceLabels: { app: 'api' } }, mesh, false],
      ['source namespace', { sourceNamespace: 'shop' }, mesh, true],
      ['another source namespace', { sourceNamespace: 'bank' }, mesh, false],
      ['another gateway', { gateways: ['edge/gw'] }, mesh, false],
      ['the mesh among gateways', { gateways: ['edge/gw', 'mesh'] }, mesh, true],
      ['the gateway', { gateways: ['edge/gw'] }, gateway, true],
      ['the gateway by bare name', { gateways: ['gw'] }, gateway, true],
      ['only the mesh, on a gateway', { gateways: ['mesh'] }, gateway, false],
      ['source labels on a gateway: they speak of the mesh', { sourceLabels: { app: 'web' } }, gateway, false],
      ['the gateway and source labels', { gateways: ['edge/gw'], sourceLabels: { app: 'api' } }, gateway, true],
    ];
  for (const [behaviour, match, context, expected] of rows) {
    test(behaviour, () => assert.equal(appliesHere(match, 'edge', context), expected));
  }
});

test('each match is a route of its own, and there is none after one that matches everything', () => {
  const routes = routesOf([
    { name: 'v2', match: [{ uri: { prefix: '/a' } }, { name: 'b', uri: { prefix: '/b' } }], route: TO_REVIEWS },
    { name: 'rest', route: TO_REVIEWS },
    { name: 'never', match: [{ uri: { prefix: '/c' } }], route: TO_REVIEWS },
  ]);
  assert.deepEqual(
    routes.map(({ name }) => name),
    ['v2', 'v2.b', 'rest'],
  );
});
