import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { AnyResource } from '../../resources/kinds/types.ts';
import { fqdn, meshOf, resource, step } from '../testing/build.ts';
import type { Snapshot } from '../types/types.ts';

const to = (host: string) => [{ destination: { host } }];
const routes = (path: string, http: object[], exportTo?: string[]) =>
  resource('VirtualService', path, { http, ...(exportTo && { exportTo }) });
const rootOf = (http: object[]) => resource('VirtualService', 'a/root', { hosts: ['web'], http });

const httpOf = (snapshot: Snapshot) =>
  snapshot.scopeOf('a', {}).egress[0]?.virtualServices.find(({ name }) => name === 'root')?.content.http;
const linesOf = (snapshot: Snapshot) => snapshot.nameConflicts().map(({ message }) => message);

/** The delegated routes of a root with one delegation. */
function merged(root: object, ...parts: object[]) {
  return httpOf(
    meshOf([
      rootOf([{ ...root, delegate: { name: 'part' } }]),
      routes(
        'a/part',
        parts.map((part) => ({ route: to('x'), ...part })),
      ),
    ]),
  );
}

test("a delegate's routes replace the route that names it; their names are those of its namespace", () => {
  const snapshot = meshOf([
    rootOf([
      { name: 'own', match: [{ uri: { exact: '/own' } }], route: to('mine') },
      { name: 'b', match: [{ uri: { prefix: '/b' } }], delegate: { name: 'part', namespace: 'b' }, timeout: '2s' },
    ]),
    routes('b/part', [
      { name: 'one', match: [{ uri: { prefix: '/b/one' } }], route: to('one'), timeout: '1s' },
      { route: to('rest') },
    ]),
  ]);
  assert.deepEqual(httpOf(snapshot), [
    { name: 'own', match: [{ uri: { exact: '/own' } }], route: [{ destination: { host: fqdn('mine.a') } }] },
    {
      name: 'b-one',
      match: [{ uri: { prefix: '/b/one' } }],
      route: [{ destination: { host: fqdn('one.b') } }],
      timeout: 1000,
    },
    {
      name: 'b',
      match: [{ uri: { prefix: '/b' } }],
      route: [{ destination: { host: fqdn('rest.b') } }],
      timeout: 2000,
    },
  ]);
  assert.deepEqual(linesOf(snapshot), []);
});

describe('a delegate only narrows what its root matches', () => {
  const uri = (match: object) => ({ match: [{ uri: match }] });
  const rows: readonly (readonly [what: string, root: object, part: object, kept: boolean])[] = [
    ['a longer prefix', uri({ prefix: '/a' }), uri({ prefix: '/a/b' }), true],
    ['a shorter prefix', uri({ prefix: '/a/b' }), uri({ prefix: '/a' }), false],
    ['a path below a prefix', uri({ prefix: '/a' }), uri({ exact: '/a/b' }), true],
    ['a prefix below a path', uri({ exact: '/a' }), uri({ prefix: '/a' }), false],
    ['the same regular expression', uri({ regex: '/a.*' }), uri({ regex: '/a.*' }), true],
    ['another regular expression', uri({ prefix: '/a' }), uri({ regex: '/a.*' }), false],
    ['any case of a path', uri({ prefix: '/a' }), { match: [{ uri: { prefix: '/a' }, ignoreUriCase: true }] }, false],
    ['another port', { match: [{ port: 80 }] }, { match: [{ port: 81 }] }, false],
    ['a value of a header', { match: [{ headers: { x: {} } }] }, { match: [{ headers: { x: { exact: 'y' } } }] }, true],
    [
      'fewer excluded headers',
      { match: [{ withoutHeaders: { x: { prefix: 'a' } } }] },
      { match: [{ withoutHeaders: { x: { exact: 'ab' } } }] },
      false,
    ],
    [
      'more excluded headers',
      { match: [{ withoutHeaders: { x: { exact: 'ab' } } }] },
      { match: [{ withoutHeaders: { x: { prefix: 'a' } } }] },
      true,
    ],
    ['another gateway', { match: [{ gateways: ['g'] }] }, { match: [{ gateways: ['h'] }] }, false],
    [
      'other source labels',
      { match: [{ sourceLabels: { app: 'a' } }] },
      { match: [{ sourceLabels: { app: 'b' } }] },
      false,
    ],
  ];
  for (const [what, root, part, kept] of rows) {
    test(`${what}: ${kept ? 'in force' : 'ignored'}`, () => {
      assert.equal(merged(root, part)?.length, kept ? 1 : 0);
    });
  }

  test('conditions of both are required', () => {
    const root = { match: [{ uri: { prefix: '/a' }, headers: { x: { exact: '1' } }, port: 80 }] };
    const part = { match: [{ headers: { y: { exact: '2' } }, method: { exact: 'GET' } }] };
    assert.deepEqual(merged(root, part)?.[0]?.match, [
      {
        uri: { prefix: '/a' },
        headers: { x: { exact: '1' }, y: { exact: '2' } },
        port: 80,
        method: { exact: 'GET' },
      },
    ]);
  });
});

describe('a delegation that cannot be followed is ignored alone and reported', () => {
  const own = { route: to('mine') };
  const root = (delegate: object) => rootOf([{ delegate }, own]);
  const rows: readonly (readonly [what: string, others: readonly AnyResource[], line: RegExp])[] = [
    [
      'missing',
      [],
      /^VirtualService\/a\/root: http\[0\] delegates to VirtualService\/b\/part, which does not exist or/,
    ],
    [
      'not exported',
      [routes('b/part', [own], ['.'])],
      /which does not exist or is not exported to a; the route is ign/,
    ],
    ['not a delegate', [resource('VirtualService', 'b/part', { hosts: ['y'], http: [own] })], /which has hosts/],
    [
      'of conflicting routes',
      [routes('b/part', [{ delegate: { name: 'next' } }])],
      /some routes of the delegate are ignored: they match other requests or delegate themselves: http\[0\]$/,
    ],
  ];
  for (const [what, others, line] of rows) {
    test(what, () => {
      const snapshot = meshOf([root({ name: 'part', namespace: 'b' }), ...others]);
      assert.equal(httpOf(snapshot)?.length, 1);
      assert.ok(
        linesOf(snapshot).some((each) => line.test(each)),
        linesOf(snapshot).join('\n'),
      );
      assert.equal(snapshot.findings().nameConflicts, 0);
    });
  }

  test('a delegate that nobody names', () => {
    const snapshot = meshOf([routes('b/part', [own])]);
    assert.match(
      linesOf(snapshot)[0] ?? '',
      /^VirtualService\/b\/part: it has no hosts, and no VirtualService delegates/,
    );
    assert.deepEqual(linesOf(step(snapshot, [root({ name: 'part', namespace: 'b' })]).snapshot), []);
  });

  test('a root with more routes than one document may have', () => {
    const many = Array.from({ length: 5000 }, () => own);
    const atMost = meshOf([rootOf([{ delegate: { name: 'part' } }]), routes('a/part', many)]);
    assert.equal(httpOf(atMost)?.length, 5000);
    const over = meshOf([rootOf([own, { delegate: { name: 'part' } }]), routes('a/part', many)]);
    assert.equal(httpOf(over)?.length, 1);
    assert.match(linesOf(over)[0] ?? '', /but the result would have too many routes; the route is ignored$/);
  });

  test('a root whose routes name long delegates again and again: the work for it has a bound', () => {
    const many = Array.from({ length: 5000 }, () => own);
    const again = Array.from({ length: 40 }, () => ({ delegate: { name: 'part' } }));
    const snapshot = meshOf([rootOf(again), routes('a/part', many)]);
    assert.equal(httpOf(snapshot)?.length, 5000);
    const [routesLeft, matchesLeft] = [
      /would have too many routes; the route is ign/,
      /would have too many matches; the route is ign/,
    ];
    const counted = [routesLeft, matchesLeft].map((each) => linesOf(snapshot).filter((line) => each.test(line)).length);
    assert.deepEqual(counted, [19, 20]);
  });
});

test('while delegation is off, neither is in force', () => {
  const documents = [rootOf([{ delegate: { name: 'part' } }]), routes('a/part', [{ route: to('x') }])];
  assert.equal(httpOf(meshOf(documents, { settings: { virtualServiceDelegates: false } })), undefined);
});

test('a changed delegate changes its roots, and nothing else', () => {
  const before = meshOf([
    rootOf([{ delegate: { name: 'part' } }]),
    resource('VirtualService', 'a/other', { hosts: ['other'], http: [{ route: to('x') }] }),
    routes('a/part', [{ route: to('x') }]),
  ]);
  const { snapshot, changes } = step(before, [routes('a/part', [{ route: to('y') }])]);
  assert.equal(httpOf(snapshot)?.[0]?.route?.[0]?.destination.host, fqdn('y.a'));
  const [scope] = changes.scopes.values();
  assert.deepEqual([...(scope?.virtualServices.keys() ?? [])], ['VirtualService/a/root']);
  const gone = step(snapshot, [], ['VirtualService/a/part']).snapshot;
  assert.deepEqual(httpOf(gone), []);
});
