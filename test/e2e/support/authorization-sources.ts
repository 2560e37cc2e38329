/** Cases about callers: identities in mutual TLS, namespaces, addresses. */
import { at, type Case, callers, cases, mesh, source, when, whenNot, withHeader } from './authorization-cases.ts';

const WEB = mesh('foo', 'web');
const PLAIN = 'plain';

export const SOURCE_CASES: readonly Case[] = [
  ...cases('principals', {
    exact: {
      rules: source({ principals: ['cluster.local/ns/foo/sa/web'] }),
      matches: callers('sidecar web.foo', WEB),
      differs: callers(
        PLAIN,
        'sidecar web.foo-bar',
        'sidecar foo.bar',
        mesh('foo', 'web2'),
        mesh('foo', 'cobweb'),
        mesh('fo', 'o-web'),
        mesh('foo', 'WEB'),
      ),
    },
    'a dot is a dot': {
      rules: source({ principals: ['cluster.local/ns/foo/sa/a.b'] }),
      matches: callers(mesh('foo', 'a.b')),
      differs: callers(mesh('foo', 'axb'), mesh('foo', 'a.b.c'), mesh('foo', 'ab')),
    },
    'a plus is a plus': {
      rules: source({ principals: ['cluster.local/ns/foo/sa/a+b'] }),
      matches: callers(mesh('foo', 'a+b')),
      differs: callers(mesh('foo', 'aab'), mesh('foo', 'ab')),
    },
    'a star inside is a star': {
      rules: source({ principals: ['cluster.local/ns/foo/sa/a*b'] }),
      matches: callers(mesh('foo', 'a*b')),
      differs: callers(mesh('foo', 'aab'), mesh('foo', 'axxb'), mesh('foo', 'ab')),
    },
    'dots of the trust domain are dots': {
      rules: source({ principals: ['clusterxlocal/ns/foo/sa/web'] }),
      matches: [],
      differs: callers(WEB, 'sidecar web.foo'),
    },
    'prefix: a namespace': {
      rules: source({ principals: ['cluster.local/ns/foo/*'] }),
      matches: callers('sidecar web.foo', mesh('foo', 'a.b')),
      differs: callers(PLAIN, 'sidecar web.foo-bar', 'sidecar foo.bar'),
    },
    'prefix with a dot': {
      rules: source({ principals: ['cluster.local/ns/foo/sa/a.*'] }),
      matches: callers(mesh('foo', 'a.b')),
      differs: callers(mesh('foo', 'axb')),
    },
    'suffix: an account in any namespace': {
      rules: source({ principals: ['*/sa/web'] }),
      matches: callers('sidecar web.foo', 'sidecar web.foo-bar', mesh('bar', 'web')),
      differs: callers(PLAIN, mesh('foo', 'cobweb'), 'sidecar foo.bar'),
    },
    'any *': {
      rules: source({ principals: ['*'] }),
      matches: callers('sidecar web.foo', mesh('bar', 'x')),
      differs: callers(PLAIN),
    },
    'one of two': {
      rules: source({ principals: ['cluster.local/ns/bar/sa/foo', 'cluster.local/ns/foo/sa/web'] }),
      matches: callers('sidecar foo.bar', WEB),
      differs: callers('sidecar web.foo-bar'),
    },
    'not one': {
      rules: source({ notPrincipals: ['cluster.local/ns/foo/sa/web'] }),
      matches: callers('sidecar foo.bar', PLAIN, mesh('foo', 'web2')),
      differs: callers('sidecar web.foo', WEB),
    },
    'not any: no identity': {
      rules: source({ notPrincipals: ['*'] }),
      matches: callers(PLAIN),
      differs: callers('sidecar web.foo', mesh('bar', 'x')),
    },
    'source.principal': {
      rules: when('source.principal', ['cluster.local/ns/foo/sa/web', '*/sa/foo']),
      matches: callers(WEB, 'sidecar foo.bar'),
      differs: callers(PLAIN, 'sidecar web.foo-bar'),
    },
    'not source.principal': {
      rules: whenNot('source.principal', ['cluster.local/ns/foo/sa/web']),
      matches: callers(PLAIN, 'sidecar foo.bar'),
      differs: callers(WEB),
    },
    'a certificate header is not a certificate': {
      rules: source({ principals: ['cluster.local/ns/foo/sa/web'] }),
      matches: [],
      differs: [
        ...withHeader(`X-Forwarded-Client-Cert: By=x;Hash=${'0'.repeat(64)};Subject="";URI=${WEB}`),
        { from: mesh('bar', 'x'), headers: [`X-Forwarded-Client-Cert: URI=${WEB}`] },
      ],
    },
  }),
  ...cases('trust domains', {
    "the mesh's, which is also its alias": {
      rules: source({ trustDomains: ['cluster.local'] }),
      matches: callers(WEB, mesh('foo', 'x', 'old.domain')),
      differs: callers(PLAIN),
    },
    "none of the mesh's": {
      rules: source({ notTrustDomains: ['old.domain'] }),
      matches: callers(PLAIN),
      differs: callers(WEB, mesh('foo', 'x', 'old.domain')),
    },
    'prefix cluster*': {
      rules: when('source.trustDomain', ['cluster*']),
      matches: callers(WEB),
      differs: callers(PLAIN, mesh('foo', 'x', 'old.domain')),
    },
    "another mesh's": {
      rules: source({ trustDomains: ['other.domain', 'cluster.loca', 'foo'] }),
      matches: [],
      differs: callers(PLAIN, WEB, 'sidecar web.foo'),
    },
  }),
  ...cases('namespaces', {
    exact: {
      rules: source({ namespaces: ['foo'] }),
      matches: callers('sidecar web.foo', WEB),
      differs: callers(
        PLAIN,
        'sidecar web.foo-bar',
        'sidecar foo.bar',
        mesh('barfoo', 'x'),
        mesh('bar', 'ns'),
        `spiffe://cluster.local/ns/bar/sa/x/ns/foo/sa/y`,
      ),
    },
    'a dot is a dot': { rules: source({ namespaces: ['f.o'] }), matches: [], differs: callers(WEB) },
    'prefix foo*': {
      rules: source({ namespaces: ['foo*'] }),
      matches: callers('sidecar web.foo', 'sidecar web.foo-bar'),
      differs: callers(PLAIN, 'sidecar foo.bar'),
    },
    'suffix *-bar': {
      rules: source({ namespaces: ['*-bar'] }),
      matches: callers('sidecar web.foo-bar'),
      differs: callers('sidecar web.foo', 'sidecar foo.bar'),
    },
    'any *': {
      rules: source({ namespaces: ['*'] }),
      matches: callers('sidecar foo.bar', WEB),
      differs: callers(PLAIN),
    },
    'not foo': {
      rules: source({ notNamespaces: ['foo'] }),
      matches: callers(PLAIN, 'sidecar foo.bar', 'sidecar web.foo-bar'),
      differs: callers('sidecar web.foo', WEB),
    },
    'source.namespace': {
      rules: when('source.namespace', ['foo', 'bar']),
      matches: callers('sidecar web.foo', 'sidecar foo.bar'),
      differs: callers(PLAIN, 'sidecar web.foo-bar'),
    },
  }),
  ...cases('service accounts', {
    'of a namespace': {
      rules: source({ serviceAccounts: ['bar/foo'] }),
      matches: callers('sidecar foo.bar'),
      differs: callers(PLAIN, mesh('foo', 'bar'), mesh('foo-bar', 'foo'), mesh('bar', 'foo2')),
    },
    "of the policy's namespace": {
      rules: source({ serviceAccounts: ['web'] }),
      matches: callers('sidecar web.foo'),
      differs: callers(PLAIN, 'sidecar web.foo-bar', mesh('bar', 'web')),
    },
    'not one': {
      rules: source({ notServiceAccounts: ['foo/web'] }),
      matches: callers(PLAIN, 'sidecar web.foo-bar'),
      differs: callers('sidecar web.foo'),
    },
    'source.serviceAccount': {
      rules: when('source.serviceAccount', ['foo/a.b']),
      matches: callers(mesh('foo', 'a.b')),
      differs: callers(mesh('foo', 'axb'), mesh('bar', 'a.b')),
    },
  }),
  ...cases('addresses', {
    'one address': { rules: source({ ipBlocks: ['198.18.0.200'] }), matches: at(200), differs: at(201) },
    'a block': { rules: source({ ipBlocks: ['198.18.0.200/31'] }), matches: at(200, 201), differs: at(202) },
    'one of two': {
      rules: source({ ipBlocks: ['10.0.0.0/8', '198.18.0.202/32'] }),
      matches: at(202),
      differs: at(200),
    },
    'IPv6 blocks': { rules: source({ ipBlocks: ['fd00::/8', '::1'] }), matches: [], differs: at(200) },
    'not a block': { rules: source({ notIpBlocks: ['198.18.0.200/31'] }), matches: at(202), differs: at(200, 201) },
    'the value of a header is not an address': {
      rules: source({ ipBlocks: ['198.18.0.200'] }),
      matches: [{ at: 200, headers: ['X-Forwarded-For: 9.9.9.9'] }],
      differs: [{ at: 202, headers: ['X-Forwarded-For: 198.18.0.200', 'X-Envoy-External-Address: 198.18.0.200'] }],
    },
    'source.ip': { rules: when('source.ip', ['198.18.0.200/31']), matches: at(201), differs: at(202) },
    'not source.ip': { rules: whenNot('source.ip', ['198.18.0.200']), matches: at(201), differs: at(200) },
    'the remote address is what the last proxy says': {
      rules: source({ remoteIpBlocks: ['10.1.0.0/16'] }),
      matches: withHeader('X-Forwarded-For: 10.1.2.3', 'X-Forwarded-For: 9.9.9.9, 10.1.2.3'),
      differs: withHeader('X-Forwarded-For: 10.1.2.3, 9.9.9.9', 'X-Forwarded-For: 10.2.0.1', 'X-Other: x'),
    },
    'the remote address in several headers': {
      rules: source({ remoteIpBlocks: ['10.1.0.0/16'] }),
      matches: [{ headers: ['X-Forwarded-For: 9.9.9.9', 'X-Forwarded-For: 10.1.2.3'] }],
      differs: [{ headers: ['X-Forwarded-For: 10.1.2.3', 'X-Forwarded-For: 9.9.9.9'] }],
    },
    'the remote address without a proxy': {
      rules: source({ remoteIpBlocks: ['198.18.0.200'] }),
      matches: at(200),
      differs: at(201),
    },
    'not a remote block': {
      rules: source({ notRemoteIpBlocks: ['10.1.0.0/16'] }),
      matches: withHeader('X-Forwarded-For: 10.2.0.1'),
      differs: withHeader('X-Forwarded-For: 10.1.2.3'),
    },
    'remote.ip': {
      rules: when('remote.ip', ['10.1.0.0/16']),
      matches: withHeader('X-Forwarded-For: 10.1.2.3'),
      differs: withHeader('X-Forwarded-For: 10.2.0.1'),
    },
  }),
];
