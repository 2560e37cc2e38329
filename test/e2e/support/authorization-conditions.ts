/** Cases about headers, end users' tokens, server names, and the combination of the parts of a rule. */
import {
  at,
  type Case,
  callers,
  cases,
  gets,
  lines,
  mesh,
  operation,
  source,
  when,
  whenNot,
  withHeader,
  withToken,
} from './authorization-cases.ts';

/** Issuers of the world's tokens; the first has slashes and dots in its name. */
export const ISSUER = 'https://issuer.test/realm';
export const OTHER_ISSUER = 'other@issuers.test';

const ANN = { iss: ISSUER, sub: 'ann' };
const BOB = { iss: ISSUER, sub: 'bob' };
const OTHER_ANN = { iss: OTHER_ISSUER, sub: 'ann' };
const ann = (claims: Readonly<Record<string, unknown>>) => ({ ...ANN, ...claims });
const role = 'request.headers[x-role]';

export const CONDITION_CASES: readonly Case[] = [
  ...cases('headers', {
    exact: {
      rules: when(role, ['admin']),
      matches: withHeader('x-role: admin', 'X-ROLE: admin', 'x-role:   admin  '),
      differs: [{}, ...withHeader('x-role: Admin', 'x-role: admins', 'x-role: xadmin', 'x-roles: admin', 'x-role:')],
    },
    'the case of the name in the policy': {
      rules: when('request.headers[X-Role]', ['admin']),
      matches: withHeader('x-role: admin'),
      differs: [{}],
    },
    'prefix and suffix': {
      rules: when(role, ['adm*', '*root']),
      matches: withHeader('x-role: admin', 'x-role: adm', 'x-role: chroot'),
      differs: withHeader('x-role: xadm', 'x-role: rooted'),
    },
    'presence *': { rules: when(role, ['*']), matches: withHeader('x-role: x'), differs: [{}] },
    'letters that patterns give a meaning': {
      rules: when(role, ['a.b+c(d)']),
      matches: withHeader('x-role: a.b+c(d)'),
      differs: withHeader('x-role: axb+c(d)', 'x-role: a.bbc(d)', 'x-role: a.bcd'),
    },
    not: {
      rules: whenNot(role, ['admin']),
      matches: [{}, ...withHeader('x-role: user')],
      differs: withHeader('x-role: admin'),
    },
    'absent: not *': { rules: whenNot(role, ['*']), matches: [{}], differs: withHeader('x-role: user') },
    'values and notValues': {
      rules: [{ when: [{ key: role, values: ['a*'], notValues: ['admin'] }] }],
      matches: withHeader('x-role: abc'),
      differs: [{}, ...withHeader('x-role: admin', 'x-role: b')],
    },
    'twice: allowed only as one value': {
      rules: when(role, ['admin']),
      actions: ['ALLOW'],
      matches: [],
      differs: [{ headers: ['x-role: user', 'x-role: admin'] }, { headers: ['x-role: admin', 'x-role: user'] }],
    },
    'twice: allowed only when all begin or end so': {
      rules: when(role, ['admin', 'root*', '*-admin']),
      actions: ['ALLOW'],
      matches: [{ headers: ['x-role: web-admin'] }, { headers: ['x-role: rooted', 'x-role: admin'] }],
      differs: [{ headers: ['x-role: admin', 'x-role: user'] }, { headers: ['x-role: user', 'x-role: web-admin'] }],
    },
    'one of three hundred': {
      rules: when(role, [...Array.from({ length: 300 }, (_, index) => `${index}${'-role'.repeat(12)}`), 'admin']),
      actions: ['ALLOW'],
      matches: [{ headers: ['x-role: admin'] }, { headers: [`x-role: 299${'-role'.repeat(12)}`, 'x-role: admin'] }],
      differs: [{ headers: ['x-role: 300'] }, { headers: ['x-role: admin', `x-role: 300${'-role'.repeat(12)}`] }],
    },
    'twice: denied when one of them is': {
      rules: when(role, ['admin', 'root*']),
      actions: ['DENY'],
      matches: [
        { headers: ['x-role: user', 'x-role: admin'] },
        { headers: ['x-role: admin', 'x-role: user'] },
        { headers: ['x-role: user', 'x-role: rooted', 'X-Role: user'] },
        { headers: ['x-role: user, admin'] },
      ],
      differs: [{ headers: ['x-role: user', 'x-role: chroot'] }],
    },
    'twice: not all are what is meant': {
      rules: whenNot(role, ['admin']),
      actions: ['ALLOW'],
      matches: [{ headers: ['x-role: user', 'x-role: other'] }],
      differs: [{ headers: ['x-role: user', 'x-role: admin'] }, { headers: ['x-role: admin', 'x-role: user'] }],
    },
    'twice: there is one': {
      rules: when(role, ['*']),
      matches: [{ headers: ['x-role: user', 'x-role: admin'] }],
      differs: [],
    },
  }),
  ...cases('request principals', {
    exact: {
      rules: source({ requestPrincipals: [`${ISSUER}/ann`] }),
      matches: withToken(ANN),
      differs: [{}, ...withToken(BOB, OTHER_ANN, ann({ sub: 'ann2' }), ann({ sub: undefined }))],
    },
    'a dot is a dot': {
      rules: source({ requestPrincipals: ['https://issuer.test/realm/a.n'] }),
      matches: withToken(ann({ sub: 'a.n' })),
      differs: withToken(ANN),
    },
    'a subject with slashes': {
      rules: source({ requestPrincipals: [`${OTHER_ISSUER}/a/b`] }),
      matches: withToken({ iss: OTHER_ISSUER, sub: 'a/b' }),
      differs: withToken({ iss: OTHER_ISSUER, sub: 'b' }, { iss: OTHER_ISSUER, sub: 'a' }),
    },
    'prefix: an issuer': {
      rules: source({ requestPrincipals: [`${ISSUER}/*`] }),
      matches: withToken(ANN, BOB),
      differs: [{}, ...withToken(OTHER_ANN)],
    },
    'suffix: a subject': {
      rules: source({ requestPrincipals: ['*/ann'] }),
      matches: withToken(ANN, OTHER_ANN),
      differs: [{}, ...withToken(BOB, ann({ sub: 'joann' }))],
    },
    'any *': { rules: source({ requestPrincipals: ['*'] }), matches: withToken(ANN, OTHER_ANN), differs: [{}] },
    'not any: no valid token': {
      rules: source({ notRequestPrincipals: ['*'] }),
      matches: [{}, { from: 'sidecar web.foo' }],
      differs: withToken(ANN),
    },
    'not one': {
      rules: source({ notRequestPrincipals: [`${ISSUER}/ann`] }),
      matches: [{}, ...withToken(BOB)],
      differs: withToken(ANN),
    },
    'request.auth.principal': {
      rules: when('request.auth.principal', [`${ISSUER}/ann`, `${OTHER_ISSUER}/*`]),
      matches: withToken(ANN, OTHER_ANN),
      differs: [{}, ...withToken(BOB)],
    },
  }),
  ...cases('claims', {
    'audiences: text or list': {
      rules: when('request.auth.audiences', ['api']),
      matches: withToken(ann({ aud: 'api' }), ann({ aud: ['web', 'api'] })),
      differs: [{}, ...withToken(ANN, ann({ aud: 'apix' }), ann({ aud: ['web', 'xapi'] }))],
    },
    'not an audience': {
      rules: whenNot('request.auth.audiences', ['api']),
      matches: withToken(ann({ aud: 'web' })),
      differs: withToken(ann({ aud: ['web', 'api'] })),
    },
    presenter: {
      rules: when('request.auth.presenter', ['client-1']),
      matches: withToken(ann({ azp: 'client-1' })),
      differs: [{}, ...withToken(ANN, ann({ azp: 'client-2' }))],
    },
    'text or list': {
      rules: when('request.auth.claims[groups]', ['admins']),
      matches: withToken(ann({ groups: 'admins' }), ann({ groups: ['users', 'admins'] })),
      differs: [
        {},
        ...withToken(ANN, ann({ groups: ['users'] }), ann({ groups: 'admins2' }), ann({ group: 'admins' })),
      ],
    },
    'prefix, suffix': {
      rules: when('request.auth.claims[groups]', ['adm*', '*.ops']),
      matches: withToken(ann({ groups: ['x', 'admins'] }), ann({ groups: 'eu.ops' })),
      differs: withToken(ann({ groups: ['xadm'] }), ann({ groups: 'euops' })),
    },
    'presence *': {
      rules: when('request.auth.claims[groups]', ['*']),
      matches: withToken(ann({ groups: 'x' }), ann({ groups: ['x'] })),
      differs: [{}, ...withToken(ANN)],
    },
    nested: {
      rules: when('request.auth.claims[realm][roles]', ['admin']),
      matches: withToken(ann({ realm: { roles: ['user', 'admin'] } }), ann({ realm: { roles: 'admin' } })),
      differs: withToken(ann({ realm: { roles: ['user'] } }), ann({ realm: 'admin' }), ann({ roles: ['admin'] })),
    },
    'a name with dots and slashes': {
      rules: when('request.auth.claims[issuer.test/role]', ['admin']),
      matches: withToken(ann({ 'issuer.test/role': 'admin' })),
      differs: withToken(ann({ 'issuer.test': { role: 'admin' } }), ANN),
    },
    'the words of a scope': {
      rules: when('request.auth.claims[scope]', ['read']),
      matches: withToken(ann({ scope: 'read write' }), ann({ scope: 'read' })),
      differs: withToken(ann({ scope: 'ready' }), ann({ scope: 'spread readable' })),
    },
    'words of other claims are one text': {
      rules: when('request.auth.claims[team]', ['red']),
      matches: withToken(ann({ team: 'red' })),
      differs: withToken(ann({ team: 'red blue' })),
    },
    'a client of that name is not a claim': {
      rules: when('request.auth.claims[groups]', ['admins']),
      matches: [],
      differs: withHeader('groups: admins', 'x-jwt-payload: eyJncm91cHMiOiJhZG1pbnMifQ'),
    },
    'the issuer': {
      rules: when('request.auth.claims[iss]', [OTHER_ISSUER]),
      matches: withToken(OTHER_ANN),
      differs: withToken(ANN),
    },
    not: {
      rules: whenNot('request.auth.claims[groups]', ['admins']),
      matches: [{}, ...withToken(ANN, ann({ groups: ['users'] }))],
      differs: withToken(ann({ groups: 'admins' }), ann({ groups: ['users', 'admins'] })),
    },
  }),
  ...cases('server names', {
    exact: {
      rules: when('connection.sni', ['shop.example']),
      matches: [{ from: mesh('foo', 'web'), sni: 'shop.example' }],
      differs: [{}, { from: mesh('foo', 'web') }, { from: mesh('foo', 'web'), sni: 'shopxexample' }],
    },
    suffix: {
      rules: when('connection.sni', ['*.example']),
      matches: [{ from: mesh('foo', 'web'), sni: 'a.example' }],
      differs: [{ from: mesh('foo', 'web'), sni: 'example.org' }],
    },
    not: {
      rules: whenNot('connection.sni', ['shop.example']),
      matches: [{}, { from: mesh('foo', 'web'), sni: 'a.example' }],
      differs: [{ from: mesh('foo', 'web'), sni: 'shop.example' }],
    },
  }),
  ...cases('together', {
    'fields of an operation: all': {
      rules: operation({ methods: ['GET'], paths: ['/a', '/b'], hosts: ['shop.example'] }),
      matches: gets('/a', '/b'),
      differs: [...lines('POST /a', 'GET /c'), { line: 'GET /a', host: 'bank.example' }],
    },
    'several operations: one': {
      rules: [{ to: [{ operation: { methods: ['GET'] } }, { operation: { paths: ['/b'] } }] }],
      matches: lines('GET /a', 'POST /b'),
      differs: lines('POST /a'),
    },
    'fields of a source: all': {
      rules: source({ namespaces: ['foo'], notPrincipals: ['cluster.local/ns/foo/sa/web'] }),
      matches: callers(mesh('foo', 'api')),
      differs: callers('plain', 'sidecar web.foo', 'sidecar foo.bar'),
    },
    'several sources: one': {
      rules: [{ from: [{ source: { namespaces: ['bar'] } }, { source: { ipBlocks: ['198.18.0.200'] } }] }],
      matches: [{ from: 'sidecar foo.bar' }, ...at(200)],
      differs: [{ from: 'sidecar web.foo' }, ...at(201)],
    },
    'several conditions: all': {
      rules: [
        {
          when: [
            { key: role, values: ['admin'] },
            { key: 'request.headers[x-unit]', values: ['a', 'b'] },
          ],
        },
      ],
      matches: [{ headers: ['x-role: admin', 'x-unit: b'] }],
      differs: [{ headers: ['x-role: admin'] }, { headers: ['x-role: admin', 'x-unit: c'] }],
    },
    'from, to and when: all': {
      rules: [
        { ...operation({ methods: ['GET'] })[0], ...source({ namespaces: ['foo'] })[0], ...when(role, ['x'])[0] },
      ],
      matches: [{ from: 'sidecar web.foo', headers: ['x-role: x'] }],
      differs: [
        { from: 'sidecar web.foo' },
        { from: 'sidecar foo.bar', headers: ['x-role: x'] },
        { from: 'sidecar web.foo', line: 'POST /', headers: ['x-role: x'] },
      ],
    },
    'several rules: one': {
      rules: [...operation({ methods: ['PUT'] }), ...when(role, ['x'])],
      matches: [{ line: 'PUT /' }, ...withHeader('x-role: x')],
      differs: lines('GET /'),
    },
    'a person and a workload': {
      rules: source({ requestPrincipals: [`${ISSUER}/*`], principals: ['cluster.local/ns/foo/sa/web'] }),
      matches: [{ from: 'sidecar web.foo', token: ANN }],
      differs: [{ token: ANN }, { from: 'sidecar web.foo' }, { from: 'sidecar foo.bar', token: ANN }],
    },
    'a rule that is empty but for its case': { rules: [{}], matches: [{}, { from: 'sidecar web.foo' }], differs: [] },
  }),
];
