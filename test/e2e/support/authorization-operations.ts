/** Cases about operations: methods, paths, hosts, ports. */
import {
  type Ask,
  type Caller,
  type Case,
  cases,
  gets,
  hosts,
  lines,
  mesh,
  operation,
  source,
  when,
} from './authorization-cases.ts';

/** A call of a gRPC client. */
const grpc = (path: string, from: Caller = 'plain'): Ask => ({
  from,
  line: `POST ${path}`,
  http2: true,
  port: 8081,
  headers: ['content-type: application/grpc', 'te: trailers'],
});

export const OPERATION_CASES: readonly Case[] = [
  ...cases('methods', {
    'one of two': {
      rules: operation({ methods: ['GET', 'PUT'] }),
      matches: lines('GET /', 'PUT /'),
      differs: lines('POST /', 'HEAD /', 'DELETE /'),
    },
    'prefix P*': {
      rules: operation({ methods: ['P*'] }),
      matches: lines('POST /', 'PATCH /'),
      differs: lines('GET /', 'OPTIONS /'),
    },
    'suffix *T': {
      rules: operation({ methods: ['*T'] }),
      matches: lines('GET /', 'PUT /'),
      differs: lines('PATCH /'),
    },
    'any *': { rules: operation({ methods: ['*'] }), matches: lines('GET /', 'DELETE /'), differs: [] },
    'not GET, HEAD': {
      rules: operation({ notMethods: ['GET', 'HEAD'] }),
      matches: lines('POST /'),
      differs: lines('GET /', 'HEAD /'),
    },
    'override headers are not the method': {
      rules: operation({ methods: ['DELETE'] }),
      matches: lines('DELETE /'),
      differs: [{ line: 'POST /', headers: ['X-HTTP-Method-Override: DELETE', 'X-HTTP-Method: DELETE'] }],
    },
  }),
  ...cases('paths', {
    'exact /admin': {
      rules: operation({ paths: ['/admin'] }),
      matches: gets('/admin', '/admin?', '/admin?x=1&y=/z', '/./admin', '/x/../admin', '/%61dmin'),
      differs: gets('/', '/admin/', '/adminx', '/Admin', '/x/admin', '/?/admin', '/x?p=/admin'),
    },
    'prefix /admin*': {
      rules: operation({ paths: ['/admin*'] }),
      matches: gets('/admin', '/admin/x', '/administrator', '/admin?x'),
      differs: gets('/adm', '/x/admin', '/x?/admin'),
    },
    'prefix /admin/*': {
      rules: operation({ paths: ['/admin/*'] }),
      matches: gets('/admin/', '/admin/x/y', '/admin//x'),
      differs: gets('/admin', '/admins/x', '/admin/../x'),
    },
    'suffix *.php': {
      rules: operation({ paths: ['*.php'] }),
      matches: gets('/a.php', '/a/b.php?x=y', '/.php'),
      differs: gets('/a.php/x', '/aphp', '/a?b=.php', '/a.PHP'),
    },
    'one segment': {
      rules: operation({ paths: ['/user/{*}/file'] }),
      matches: gets('/user/a/file', '/user/a.b-c/file?x'),
      differs: gets('/user/file', '/user/a/b/file', '/user/a/files', '/user/{*}'),
    },
    'any number of segments': {
      rules: operation({ paths: ['/tree/{*}/{**}'] }),
      matches: gets('/tree/a/', '/tree/a/b/c'),
      differs: gets('/tree/a', '/trees/a/b'),
    },
    'any *': { rules: operation({ paths: ['*'] }), matches: gets('/', '/x?y=z'), differs: [] },
    'dots and plus are letters': {
      rules: operation({ paths: ['/v1.0/a+b'] }),
      matches: gets('/v1.0/a+b'),
      differs: gets('/v1x0/a+b', '/v1.0/aab', '/v1.0/ab'),
    },
    'a dot in a prefix': {
      rules: operation({ paths: ['/a.b*'] }),
      matches: gets('/a.bc'),
      differs: gets('/axbc', '/a'),
    },
    'brackets and $ are letters': {
      rules: operation({ paths: ['/pay$(x)'] }),
      matches: gets('/pay$(x)'),
      differs: gets('/payx', '/pay', '/pay$x'),
    },
    'a star inside is a letter': {
      rules: operation({ paths: ['/star/*/x'] }),
      matches: gets('/star/*/x'),
      differs: gets('/star/any/x', '/star//x', '/star/x'),
    },
    'a query is not part of a path': {
      rules: operation({ paths: ['/q'] }),
      matches: gets('/q?x=1', '/q', '/q?'),
      differs: gets('/q%3Fx=1'),
    },
    'one of several': {
      rules: operation({ paths: ['/one', '/two/*', '*/three'] }),
      matches: gets('/one', '/two/x', '/x/three'),
      differs: gets('/one/', '/two', '/three/x'),
    },
    'not /healthz, /public/*': {
      rules: operation({ notPaths: ['/healthz', '/public/*'] }),
      matches: gets('/', '/public', '/healthz/', '/public/../admin'),
      differs: gets('/healthz', '/public/x', '/healthz?verbose'),
    },
    'but not in the same operation': {
      rules: operation({ paths: ['/api/*'], notPaths: ['/api/open/*'] }),
      matches: gets('/api/x', '/api/open'),
      differs: gets('/api/open/x', '/x'),
    },
  }),
  ...cases('hosts', {
    'exact a.example': {
      rules: operation({ hosts: ['a.example'] }),
      matches: hosts('a.example', 'A.Example', 'a.example:8080', 'A.EXAMPLE:99', 'a.example.', 'a.example.:80'),
      differs: hosts('b.example', 'xa.example', 'a.example.evil', 'axexample', 'a.example.evil:80'),
    },
    'written in capitals': {
      rules: operation({ hosts: ['Shop.EXAMPLE'] }),
      matches: hosts('shop.example', 'SHOP.example'),
      differs: hosts('bank.example'),
    },
    'with a port of its own': {
      rules: operation({ hosts: ['a.example:8443'] }),
      matches: hosts('a.example:8443', 'A.example:8443'),
      differs: hosts('a.example:9090', 'b.example:8443'),
    },
    'suffix *.example': {
      rules: operation({ hosts: ['*.example'] }),
      matches: hosts('a.example', 'B.EXAMPLE', 'a.b.example', 'a.example:80'),
      differs: hosts('example', 'a.example.org', 'aexample', 'xexample:80'),
    },
    'prefix a.*': {
      rules: operation({ hosts: ['a.*'] }),
      matches: hosts('a.example', 'A.org', 'a.example:1'),
      differs: hosts('b.a.example', 'ab'),
    },
    'any *': { rules: operation({ hosts: ['*'] }), matches: hosts('a.example', 'x:1'), differs: [] },
    'not a.example': {
      rules: operation({ notHosts: ['a.example'] }),
      matches: hosts('b.example', 'aa.example'),
      differs: hosts('a.example', 'A.EXAMPLE', 'a.example:1234'),
    },
    'the authority of HTTP/2': {
      rules: operation({ hosts: ['a.example'] }),
      matches: [{ http2: true, port: 8081, host: 'A.example' }],
      differs: [{ http2: true, port: 8081, host: 'b.example' }],
    },
  }),
  ...cases('gRPC', {
    'a method': {
      rules: operation({ methods: ['POST'], paths: ['/shop.v1.Orders/Get'] }),
      matches: [grpc('/shop.v1.Orders/Get')],
      differs: [grpc('/shop.v1.Orders/Delete'), grpc('/shopxv1.Orders/Get')],
    },
    'a service, for a workload': {
      rules: [{ ...operation({ paths: ['/shop.v1.Orders/*'] })[0], ...source({ namespaces: ['foo'] })[0] }],
      matches: [grpc('/shop.v1.Orders/Get', mesh('foo', 'web'))],
      differs: [grpc('/shop.v1.Orders/Get'), grpc('/shop.v1.Stock/Get', mesh('foo', 'web'))],
    },
  }),
  ...cases('ports', {
    'the port of the application': {
      rules: operation({ ports: ['8080'] }),
      matches: [{}, { from: 'sidecar web.foo' }],
      differs: [{ http2: true, port: 8081 }],
    },
    'the port of the service means nothing': { rules: operation({ ports: ['80'] }), matches: [], differs: [{}] },
    'one of two': {
      rules: operation({ ports: ['8081', '8080'] }),
      matches: [{}, { http2: true, port: 8081 }],
      differs: [],
    },
    'not 8080': {
      rules: operation({ notPorts: ['8080'] }),
      matches: [{ http2: true, port: 8081 }],
      differs: [{}],
    },
    'destination.port': {
      rules: when('destination.port', ['8081']),
      matches: [{ http2: true, port: 8081 }],
      differs: [{}],
    },
    'destination.ip': {
      rules: ({ address }) => when('destination.ip', [address]),
      matches: [{}, { from: 'sidecar web.foo' }],
      differs: [],
    },
    'destination.ip of a network': {
      rules: when('destination.ip', ['198.18.0.0/24']),
      matches: [{}],
      differs: [],
    },
    'destination.ip of another': { rules: when('destination.ip', ['10.0.0.0/8']), matches: [], differs: [{}] },
  }),
];
