import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { envoy } from '../../../protobuf/index.ts';
import { MeshReader } from '../../reads/index.ts';
import { guarded, policyOf } from '../../testing/authorization.ts';
import { inboundOf } from '../../testing/listeners.ts';
import { decode, matches, passes, type Request } from '../../testing/rbac.ts';
import { connectionRules, requestRules } from './index.ts';

/** Which requests reach a workload of namespace `shop` under policies with these specs. */
function guard(specs: readonly string[], more: Parameters<typeof guarded>[1] = {}) {
  const { snapshot, view } = guarded(
    specs.map((spec, index) => policyOf({ name: `p${index}`, spec })),
    more,
  );
  const { external, local } = requestRules(MeshReader.of(snapshot), view);
  const requests = [...external, ...local];
  const { filters: connections } = connectionRules(MeshReader.of(snapshot), view);
  return {
    requests,
    connections,
    request: (request: Request) => passes(requests, request),
    connection: (request: Request) => passes(connections, request),
  };
}

const from = (fields: string) => `{from: [{source: {${fields}}}]}`;
const to = (fields: string) => `{to: [{operation: {${fields}}}]}`;
const when = (key: string, values: string) => `{when: [{key: "${key}", values: [${values}]}]}`;
const peer = (uri: string): Request => ({ peer: [`spiffe://${uri}`] });
const WEB = peer('cluster.local/ns/shop/sa/web');
const PLAIN: Request = {};

describe('what a rule matches', () => {
  const rows: readonly (readonly [rule: string, matching: readonly Request[], others: readonly Request[]])[] = [
    [from('principals: [cluster.local/ns/shop/sa/web]'), [WEB], [PLAIN, peer('cluster.local/ns/shop/sa/web2')]],
    [from('principals: [cluster.local/ns/shop/sa/w.b]'), [peer('cluster.local/ns/shop/sa/w.b')], [WEB]],
    [
      from("principals: ['cluster.local/ns/shop/sa/a+b']"),
      [peer('cluster.local/ns/shop/sa/a+b')],
      [peer('cluster.local/ns/shop/sa/aab')],
    ],
    [
      from("principals: ['cluster.local/ns/a*b/sa/x']"),
      [peer('cluster.local/ns/a*b/sa/x')],
      [peer('cluster.local/ns/aab/sa/x')],
    ],
    [from("principals: ['*/sa/web']"), [WEB], [peer('cluster.local/ns/shop/sa/cobweb')]],
    [from("principals: ['*']"), [WEB, peer('x')], [PLAIN, { peer: [] }, { peer: ['https://x'] }]],
    [from("notPrincipals: ['*']"), [PLAIN], [WEB]],
    [
      from('notPrincipals: [cluster.local/ns/shop/sa/web]'),
      [PLAIN, peer('cluster.local/ns/shop/sa/x')],
      [WEB, { peer: ['spiffe://cluster.local/ns/shop/sa/x', ...(WEB.peer ?? [])] }],
    ],
    [
      from('namespaces: [shop]'),
      [WEB],
      [PLAIN, peer('cluster.local/ns/x/sa/shop'), peer('ns/shop/sa/ns/x/sa/y'), peer('shop/ns/x/sa/ns/shop/sa/y')],
    ],
    [from('namespaces: [s.op]'), [peer('cluster.local/ns/s.op/sa/x')], [WEB]],
    [
      from("namespaces: ['*-prod', 'team-*']"),
      [peer('a/ns/a-prod/sa/x'), peer('a/ns/team-/sa/x')],
      [peer('a/ns/a/sa/x-prod'), peer('a/ns/prod/sa/x')],
    ],
    [
      from("trustDomains: [partner.example, 'eu-*', '*.test']"),
      [peer('partner.example/ns/a/sa/b'), peer('eu-1/ns/a/sa/b'), peer('a.test/ns/a/sa/b')],
      [peer('partner.example.org/ns/a/sa/b'), peer('partnerxexample/ns/a/sa/b'), peer('a/ns/eu-1/sa/b'), PLAIN],
    ],
    [from("trustDomains: ['*']"), [WEB, peer('a/ns/b/sa/c')], [PLAIN]],
    [from('notTrustDomains: [partner.example]'), [WEB, PLAIN], [peer('partner.example/ns/a/sa/b')]],
    [when('source.trustDomain', 'partner.example'), [peer('partner.example/ns/a/sa/b')], [WEB]],
    [
      when('experimental.envoy.filters.network.mysql_proxy[shop.orders]', "'[insert]', write"),
      [{ metadata: { 'shop.orders': ['select', 'insert'] } }, { metadata: { 'shop.orders': 'write' } }],
      [{ metadata: { 'shop.orders': 'insert' } }, { metadata: { 'shop.orders': ['write'] } }, PLAIN],
    ],
    [
      to("paths: ['/a/{*}/b']"),
      [{ path: '/a/x/b' }, { path: '/a/x.y;z/b?q' }],
      [{ path: '/a/b' }, { path: '/a//b' }, { path: '/a/x/y/b' }, { path: '/a/x/b/c' }, { path: '/z/a/x/b' }],
    ],
    [to("paths: ['/a/{**}']"), [{ path: '/a/' }, { path: '/a/x/y' }], [{ path: '/a' }, { path: '/ab/c' }]],
    [to("paths: ['/a/{**}/']"), [{ path: '/a/x/' }, { path: '/a//' }], [{ path: '/a/x' }]],
    [to("notPaths: ['/a/{*}']"), [{ path: '/a' }], [{ path: '/a/x' }]],
    [
      from('serviceAccounts: [web, other/api]'),
      [WEB, peer('td/ns/other/sa/api')],
      [peer('td/ns/other/sa/web'), peer('td/ns/shop/sa/api')],
    ],
    [
      from('ipBlocks: [10.0.0.0/8]'),
      [{ from: '10.1.1.1', client: '192.0.2.1' }],
      [{ from: '192.0.2.1', client: '10.1.1.1' }],
    ],
    [
      from('remoteIpBlocks: [10.0.0.0/8]'),
      [{ from: '192.0.2.1', client: '10.1.1.1' }],
      [{ from: '10.1.1.1', client: '192.0.2.1' }],
    ],
    [from("ipBlocks: ['fd00::/8']"), [{ from: 'fd00::1' }], [{ from: '10.0.0.1' }]],
    [
      to('hosts: [a.example]'),
      [{ host: 'A.example' }, { host: 'a.example:8080' }, { host: 'a.example.' }],
      [{ host: 'axexample' }, { host: 'b.a.example' }, { host: 'a.example.org:80' }],
    ],
    [to("hosts: ['*.example']"), [{ host: 'a.example:1' }], [{ host: 'example' }, { host: 'a.example.org' }]],
    [to("hosts: ['a.*']"), [{ host: 'A.b:1' }], [{ host: 'b.a.c' }]],
    [
      to('hosts: ["a.example:8443"]'),
      [{ host: 'a.example:8443' }],
      [{ host: 'a.example' }, { host: 'a.example:18443' }],
    ],
    [to("methods: [GET, 'P*']"), [{ method: 'GET' }, { method: 'PATCH' }], [{ method: 'DELETE' }]],
    [
      to('paths: [/a.b]'),
      [{ path: '/a.b' }, { path: '/a.b?x' }],
      [{ path: '/axb' }, { path: '/a.b/' }, { path: '/?/a.b' }],
    ],
    [to("paths: ['/a/*']"), [{ path: '/a/' }, { path: '/a/b' }], [{ path: '/a' }]],
    [to("paths: ['*/x', '/s*r']"), [{ path: '/a/x' }, { path: '/s*r' }], [{ path: '/star' }]],
    [to("ports: ['90']"), [{ port: 90 }], [{ port: 80 }]],
    [when('destination.ip', '10.0.0.1'), [{ to: '10.0.0.1' }], [{ to: '10.0.0.2' }]],
    [when('connection.sni', "'*.Example'"), [{ sni: 'a.example' }], [{}, { sni: 'example' }]],
    [when('connection.sni', "'*'"), [{ sni: 'a' }], [{}]],
    [
      when('request.headers[X-A]', 'b'),
      [{ headers: [['x-a', 'b']] }],
      [{}, { headers: [['x-a', 'B']] }, { headers: [['x-a', '']] }],
    ],
    [when('request.headers[host]', 'a:1'), [{ host: 'a:1' }], [{ host: 'a' }]],
    [from("requestPrincipals: ['*']"), [{ token: { iss: 'i', sub: 's' } }, { token: { iss: 'i' } }], [PLAIN]],
    [
      from('requestPrincipals: [https://i/s/t]'),
      [{ token: { iss: 'https://i', sub: 's/t' } }, { token: { iss: 'https://i/s', sub: 't' } }],
      [{ token: { iss: 'https://i/s/t' } }, { token: { iss: 'https:', sub: 'i/s/t' } }],
    ],
    [
      from("requestPrincipals: ['i/']"),
      [{ token: { iss: 'i' } }, { token: { iss: 'i', sub: '' } }],
      [{ token: { iss: 'i', sub: 's' } }],
    ],
    [
      from("requestPrincipals: ['https://i*']"),
      [{ token: { iss: 'https://issuer', sub: 's' } }],
      [{ token: { iss: 'http://i', sub: 's' } }],
    ],
    [
      when('request.auth.claims[a][b]', "x, 'y*'"),
      [{ token: { iss: 'i', a: { b: 'x' } } }, { token: { iss: 'i', a: { b: ['z', 'yz'] } } }],
      [{ token: { iss: 'i', a: 'x' } }, { token: { iss: 'i', 'a][b': 'x' } }, { token: { iss: 'i', b: 'x' } }],
    ],
    [
      when('request.auth.claims[n]', "'*'"),
      [{ token: { iss: 'i', n: 7 } }, { token: { iss: 'i', n: [false] } }],
      [{ token: { iss: 'i', n: [] } }, { token: { iss: 'i' } }],
    ],
    [when('request.auth.claims[n]', "'7'"), [{ token: { iss: 'i', n: '7' } }], [{ token: { iss: 'i', n: 7 } }]],
    [
      when('request.auth.audiences', 'a'),
      [{ token: { iss: 'i', aud: ['b', 'a'] } }],
      [{ token: { iss: 'i', aud: 'ab' } }],
    ],
    [when('request.auth.presenter', 'a'), [{ token: { iss: 'i', azp: 'a' } }], [{ token: { iss: 'i', aud: 'a' } }]],
    ['{}', [PLAIN, WEB], []],
  ];
  for (const [rule, matching, others] of rows) {
    test(rule, () => {
      const allow = guard([`{rules: [${rule}]}`]);
      const deny = guard([`{action: DENY, rules: [${rule}]}`]);
      for (const request of matching) {
        assert.ok(allow.request(request), `allowed: ${JSON.stringify(request)}`);
        assert.ok(!deny.request(request), `denied: ${JSON.stringify(request)}`);
      }
      for (const request of others) {
        assert.ok(!allow.request(request), `not allowed: ${JSON.stringify(request)}`);
        assert.ok(deny.request(request), `not denied: ${JSON.stringify(request)}`);
      }
    });
  }
});

describe('in doubt a request is refused', () => {
  const doubtful: readonly (readonly [rule: string, request: Request])[] = [
    [
      when('request.headers[x-role]', 'admin'),
      {
        headers: [
          ['x-role', 'admin'],
          ['x-role', 'user'],
        ],
      },
    ],
    [when('request.headers[x-role]', 'admin'), { headers: [['x-role', 'user, admin']] }],
    [when('request.headers[x-role]', "'*min'"), { headers: [['x-role', 'admin,user']] }],
    [
      when('request.headers[x-role]', "admin, '*-admin'"),
      {
        headers: [
          ['x-role', 'admin'],
          ['x-role', 'user'],
        ],
      },
    ],
    [to('methods: [DELETE]'), { method: 'Delete' }],
    [to("methods: ['DEL*']"), { method: 'delete' }],
    [to('hosts: [a.example]'), { host: 'me@a.example' }],
    [to('hosts: [a.example]'), { host: 'a.example:x' }],
    [to('hosts: [a.example]'), { host: 'b,a.example' }],
    [to("hosts: ['a.*']"), { host: 'b,a.example' }],
    [to("paths: ['/a/{*}/b']"), { path: '/a/;x/b' }],
    [to("paths: ['/a/{*}/b']"), { path: '/a/.;x/b' }],
    [to("paths: ['/a/{**}']"), { path: '/a/..;/b' }],
    [to("paths: ['/a/{**}']"), { path: '/;x/a/b/..;' }],
    // Tokens without issuer, which a rule without issuer may accept.
    [from("requestPrincipals: ['*']"), { token: { sub: 's' } }],
    [from('requestPrincipals: [/s]'), { token: { sub: 's' } }],
    [from("requestPrincipals: ['/s*']"), { token: { sub: 'st' } }],
  ];
  for (const [rule, request] of doubtful) {
    test(`${rule} and ${JSON.stringify(request)}`, () => {
      assert.ok(!guard([`{rules: [${rule}]}`]).request(request), 'not let in');
      assert.ok(!guard([`{action: DENY, rules: [${rule}]}`]).request(request), 'kept out');
    });
  }
});

test('however many values a header has, Envoy accepts each expression', () => {
  const names = Array.from({ length: 400 }, (_, index) => `${'x'.repeat(40)}${(index * 7919).toString(36)}-${index}`);
  for (const values of [names, names.map((name) => `*${name}`), names.map((name) => `${name}*`)]) {
    const rbac = guard([
      `{rules: [${when('request.headers[x-role]', values.map((value) => `'${value}'`).join(', '))}]}`,
    ]);
    const [, last = ''] = /^\*?(.*?)\*?$/.exec(values.at(-1) ?? '') ?? [];
    assert.ok(rbac.request({ headers: [['x-role', last]] }), 'the last value');
    assert.ok(
      !rbac.request({
        headers: [
          ['x-role', last],
          ['x-role', 'user'],
        ],
      }),
      'beside another one',
    );
    const written = JSON.stringify(rbac.requests.map(decode));
    const regexes = [...written.matchAll(/"regex":"((?:[^"\\]|\\.)*)"/g)].map(([, regex = '']) => regex);
    assert.ok(regexes.length > 1);
    // About ten letters, and as many instructions, for each letter of a value.
    for (const regex of regexes) assert.ok(regex.length < 20_000, `${regex.length} letters`);
  }
});

describe('parameters of path segments hide nothing', () => {
  const deny = (path: string) => guard([`{action: DENY, rules: [${to(`paths: ['${path}']`)}]}`]);
  const allow = (path: string) => guard([`{rules: [${to(`paths: ['${path}']`)}]}`]);
  test('from rules that deny', () => {
    for (const path of ['/admin;x', '/;/admin', '/;a/;b/admin;c;d']) assert.ok(!deny('/admin').request({ path }), path);
    // A step up may lead anywhere.
    assert.ok(!deny('/admin').request({ path: '/public/..;x/admin' }));
    for (const path of ['/a;b/c', '/a;/;/c/d']) assert.ok(!deny('/a/c*').request({ path }), path);
    assert.ok(!deny('*/c').request({ path: '/a/c;d' }));
    for (const path of ['/admin/;x', '/adminx;', '/x;/admin']) assert.ok(deny('/admin').request({ path }), path);
  });
  test('nor from rules that allow', () => {
    assert.ok(!allow('/public/*').request({ path: '/public/..;x/admin' }));
    assert.ok(!allow('*.png').request({ path: '/admin;.png' }));
    assert.ok(allow('/public/*').request({ path: '/public/x;v=1' }) && allow('/a;b').request({ path: '/a;b' }));
  });
});

describe('combinations of policies', () => {
  test('without policies all is allowed, and there is no filter', () => {
    const { requests, connections } = guard([]);
    assert.deepEqual([requests, connections], [[], []]);
  });
  test('a policy without rules allows nobody', () => {
    const { request, connection } = guard(['{}']);
    assert.ok(!request(WEB) && !connection(WEB));
  });
  test('other policies beside it still allow', () =>
    assert.ok(guard(['{}', `{rules: [${to('methods: [GET]')}]}`]).request({})));
  test('DENY wins', () => {
    const { request } = guard(['{rules: [{}]}', `{action: DENY, rules: [${to('methods: [PUT]')}]}`]);
    assert.ok(request({ method: 'GET' }) && !request({ method: 'PUT' }));
  });
  test("policies are named as in Istio's logs, in the order of precedence", () => {
    const [deny] = guard(['{action: DENY, rules: [{}, {}]}', '{action: DENY, rules: [{}]}']).requests;
    assert.ok(deny);
    assert.deepEqual(Object.keys(decode(deny).rules?.policies ?? {}), [
      'ns[shop]-policy[p0]-rule[0]',
      'ns[shop]-policy[p0]-rule[1]',
      'ns[shop]-policy[p1]-rule[0]',
    ]);
  });
  test('AUDIT refuses nothing, marks the request for the access log, and names the rule', () => {
    const { requests, request } = guard([`{action: AUDIT, rules: [${to('methods: [PUT]')}]}`]);
    assert.ok(request({ method: 'PUT' }));
    const [audit] = requests.map(decode);
    assert.equal(audit?.rules?.action, envoy.config.rbac.v3.RBAC.Action.LOG);
    assert.equal(audit.shadowRulesStatPrefix, 'mesh_audit_');
    assert.ok(audit.shadowRules && matches(audit.shadowRules, { method: 'PUT' }));
  });
  test('service accounts without namespace are those of the policy, also of one for the whole mesh', () => {
    const spec = `{rules: [${from('serviceAccounts: [web]')}]}`;
    const { snapshot, view } = guarded([policyOf({ namespace: 'mesh-system', spec })]);
    const { local } = requestRules(MeshReader.of(snapshot), view);
    assert.ok(!passes(local, WEB) && passes(local, peer('td/ns/mesh-system/sa/web')));
  });
});

describe('trust domains', () => {
  const mesh = { trustDomainAliases: ['old.example'] };
  const settings = { trustDomain: 'td.example' };
  const rows: readonly (readonly [principal: string, matching: string[], others: string[]])[] = [
    ['td.example/ns/a/sa/b', ['td.example/ns/a/sa/b', 'old.example/ns/a/sa/b'], ['cluster.local/ns/a/sa/b']],
    ['old.example/ns/a/sa/b', ['td.example/ns/a/sa/b', 'old.example/ns/a/sa/b'], ['other/ns/a/sa/b']],
    ['cluster.local/ns/a/sa/b', ['td.example/ns/a/sa/b', 'old.example/ns/a/sa/b'], ['cluster.local/ns/a/sa/b']],
    ['other/ns/a/sa/b', ['other/ns/a/sa/b'], ['td.example/ns/a/sa/b']],
    ['tdxexample/ns/a/sa/b', ['tdxexample/ns/a/sa/b'], ['td.example/ns/a/sa/b']],
    ['old.example/*', ['td.example/ns/a/sa/b'], ['td.examples/ns/a/sa/b']],
    ['td*', ['td.example/ns/a/sa/b', 'tdx/y'], ['old.example/ns/a/sa/b']],
    ['*d.example/ns/a/sa/b', ['td.example/ns/a/sa/b', 'old.example/ns/a/sa/b', 'd.example/ns/a/sa/b'], ['x/ns/a/sa/b']],
  ];
  for (const [principal, matching, others] of rows) {
    test(principal, () => {
      const { request } = guard([`{rules: [${from(`principals: ['${principal}']`)}]}`], { mesh, settings });
      for (const uri of matching) assert.ok(request(peer(uri)), uri);
      for (const uri of others) assert.ok(!request(peer(uri)), uri);
    });
  }
});

describe('TCP connections', () => {
  const rows: readonly (readonly [rule: string, allowed: boolean, denied: boolean])[] = [
    [to('methods: [GET]'), false, true],
    [to('notPaths: [/a]'), false, true],
    [from("requestPrincipals: ['*']"), false, true],
    [from("notRequestPrincipals: ['*']"), false, true],
    [when('request.headers[a]', 'b'), false, true],
    [to("ports: ['80']"), true, true],
    [to("ports: ['90']"), false, false],
    [to("ports: ['90'], methods: [GET]"), false, false],
    [to("ports: ['80'], methods: [GET]"), false, true],
    [`{to: [{operation: {ports: ['80']}}, {operation: {methods: [GET]}}]}`, false, true],
    [from('namespaces: [shop]'), true, true],
    [from('namespaces: [other], requestPrincipals: [a/b]'), false, false],
    ['{}', true, true],
  ];
  for (const [rule, allowed, denied] of rows) {
    test(rule, () => {
      const connection = { ...WEB, port: 80 };
      assert.equal(guard([`{rules: [${rule}]}`]).connection(connection), allowed);
      assert.equal(!guard([`{action: DENY, rules: [${rule}]}`]).connection(connection), denied);
    });
  }
});

test('connections that are always refused lead nowhere, so that the application is never contacted', () => {
  const rows: readonly (readonly [spec: string, refusesAll: boolean])[] = [
    ['{}', true],
    [`{rules: [${to('methods: [GET]')}]}`, true],
    [`{rules: [${from("principals: ['*']")}]}`, false],
    ['{action: DENY, rules: [{}]}', true],
    [`{action: DENY, rules: [${to('paths: [/a]')}]}`, true],
    [`{action: DENY, rules: [${to("ports: ['80']")}]}`, false],
    [`{action: DENY, rules: [${from('namespaces: [a]')}]}`, false],
    ['{action: CUSTOM, provider: {name: nobody}, rules: [{}]}', true],
    ['{action: AUDIT, rules: [{}]}', false],
  ];
  for (const [spec, refusesAll] of rows) {
    const { snapshot, view } = guarded([policyOf({ spec })]);
    assert.equal(connectionRules(MeshReader.of(snapshot), view).refusesAll, refusesAll, spec);
    const web = {
      targetPort: 90,
      servicePort: 90,
      portName: 'tcp',
      protocol: 'TCP',
      hostname: 'web',
      namespace: 'shop',
    } as const;
    const { listeners } = inboundOf(snapshot, { ...view, ports: [web] });
    const chain = listeners
      .get('virtualInbound')
      ?.filterChains.find(({ filterChainMatch }) => filterChainMatch?.destinationPort?.value === 90);
    const last = chain?.filters.at(-1)?.typedConfig?.value ?? new Uint8Array();
    const { cluster } = envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy.decode(last);
    assert.equal(cluster, refusesAll ? 'BlackHoleCluster' : 'inbound|90||', spec);
  }
});

describe('plugins', () => {
  const specs = ['{action: DENY, rules: [{}]}', '{action: CUSTOM, provider: {name: nobody}, rules: [{}]}'];
  const filters = (plugins: string[]) => guard(specs, { settings: { plugins } }).requests.length;
  test('authz: RBAC', () => assert.equal(filters(['authz']), 1));
  test('policy: external authorizers', () => assert.equal(filters(['policy']), 1));
  test('both, and neither', () => assert.deepEqual([filters(['authz', 'policy']), filters(['authn'])], [2, 0]));
});
