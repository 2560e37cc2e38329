import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { gatewayOutput, viewOf } from '../testing/gateways.ts';
import { gatewayOf, httpPort, REVIEWS, serviceOf, TO_REVIEWS, virtualServiceOf } from '../testing/routes.ts';

const HTTP = { port: { number: 80, name: 'http', protocol: 'HTTP' }, hosts: ['*'] };
const services = [serviceOf('reviews', [httpPort(9080)])];

const OLD = { created: 1 };
const NEW = { created: 2 };

function bound(name: string, hosts: readonly string[], http: readonly unknown[], gateways = ['edge/gw']) {
  return virtualServiceOf({ hosts, gateways, http }, { name });
}

describe('routes of a gateway port', () => {
  test('a virtual host for each host, routed to the service', () => {
    const vs = bound('a', ['a.example', 'b.example'], [{ route: TO_REVIEWS }]);
    const hosts = gatewayOutput({ servers: [HTTP], services, virtualServices: [vs] }).routes.get(
      'http.80',
    )?.virtualHosts;
    assert.deepEqual(
      hosts?.map(({ name, domains, routes }) => [name, domains, routes[0]?.route?.cluster]),
      [
        ['a.example:80', ['a.example'], `outbound|9080||${REVIEWS}`],
        ['b.example:80', ['b.example'], `outbound|9080||${REVIEWS}`],
      ],
    );
  });

  test('without virtual services nothing is found', () => {
    const [host, ...others] = gatewayOutput({ servers: [HTTP] }).routes.get('http.80')?.virtualHosts ?? [];
    assert.equal(others.length, 0);
    assert.equal(host?.name, 'blackhole:80');
    assert.deepEqual(host?.domains, ['*']);
    assert.deepEqual(host?.routes, []);
  });

  test('several virtual services of one host: routes joined, the older one first, its catch-all last', () => {
    const older = bound(
      'older',
      ['a.example'],
      [
        { match: [{ uri: { prefix: '/1' } }], route: TO_REVIEWS },
        { name: 'rest', route: TO_REVIEWS },
      ],
    );
    const newer = bound(
      'newer',
      ['a.example'],
      [
        { match: [{ uri: { prefix: '/2' } }], route: TO_REVIEWS },
        { name: 'no', route: TO_REVIEWS },
      ],
    );
    const output = gatewayOutput({
      servers: [HTTP],
      services,
      virtualServices: [
        { ...newer, ...NEW },
        { ...older, ...OLD },
      ],
    });
    const [host, ...others] = output.routes.get('http.80')?.virtualHosts ?? [];
    assert.equal(others.length, 0);
    assert.deepEqual(
      host?.routes.map(({ match, name }) => [match?.prefix, name]),
      [
        ['/1', ''],
        ['/2', ''],
        ['/', 'rest'],
      ],
    );
  });

  test('matches for other gateways or ports are left out', () => {
    const vs = bound(
      'a',
      ['a.example'],
      [
        {
          match: [
            { gateways: ['mesh'], uri: { prefix: '/mesh' } },
            { port: 81, uri: { prefix: '/81' } },
            { gateways: ['edge/gw'], uri: { prefix: '/gw' } },
          ],
          route: TO_REVIEWS,
        },
      ],
      ['mesh', 'edge/gw'],
    );
    const output = gatewayOutput({ servers: [HTTP], services, virtualServices: [vs] });
    assert.deepEqual(
      output.routes.get('http.80')?.virtualHosts[0]?.routes.map(({ match }) => match?.prefix),
      ['/gw'],
    );
  });

  test('a virtual service without routes for the port does not take its host from others', () => {
    const none = bound('a', ['a.example'], [{ match: [{ port: 81 }], route: TO_REVIEWS }]);
    const all = bound('b', ['*'], [{ route: TO_REVIEWS }]);
    const output = gatewayOutput({ servers: [HTTP], services, virtualServices: [none, all] });
    assert.deepEqual(
      output.routes.get('http.80')?.virtualHosts.map(({ domains }) => domains),
      [['*']],
    );
  });

  test('servers of several gateways share the port; each has the virtual services bound to it', () => {
    const gateways = [
      gatewayOf({ servers: [HTTP] }),
      gatewayOf({ servers: [{ ...HTTP, hosts: ['b.example'] }] }, { name: 'other' }),
    ];
    const virtualServices = [
      bound('a', ['a.example'], [{ route: TO_REVIEWS }]),
      bound('b', ['b.example', 'c.example'], [{ route: TO_REVIEWS }], ['edge/other']),
    ];
    const output = gatewayOutput(
      { gateways, services, virtualServices },
      viewOf({ gateways: ['edge/gw', 'edge/other'] }),
    );
    assert.deepEqual(
      output.routes.get('http.80')?.virtualHosts.map(({ name }) => name),
      ['a.example:80', 'b.example:80'],
    );
    assert.deepEqual(
      output.listeners.map(({ refs }) => refs),
      [['http.80']],
    );
  });

  test('redirect to HTTPS, also for hosts without a virtual service', () => {
    const server = { ...HTTP, hosts: ['a.example', 'b.example'], tls: { httpsRedirect: true } };
    const output = gatewayOutput({
      servers: [server],
      services,
      virtualServices: [bound('a', ['a.example'], [{ route: TO_REVIEWS }])],
    });
    const hosts = output.routes.get('http.80')?.virtualHosts;
    assert.deepEqual(
      hosts?.map(({ name }) => name),
      ['a.example:80', 'b.example:80'],
    );
    for (const { routes } of hosts ?? []) {
      assert.deepEqual(
        routes[0]?.match?.headers.map(({ name, stringMatch, invertMatch }) => [name, stringMatch?.exact, invertMatch]),
        [['x-forwarded-proto', 'https', true]],
      );
      assert.deepEqual([routes[0]?.redirect?.httpsRedirect, routes[0]?.redirect?.portRedirect], [true, 0]);
    }
    // Requests for which a trusted proxy in front has terminated TLS are served.
    assert.equal(hosts?.[0]?.routes[1]?.route?.cluster, `outbound|9080||${REVIEWS}`);
  });

  const redirects: readonly [string, number, number, object[]][] = [
    ['the usual ports: none is named', 80, 443, [{ portRedirect: 0 }]],
    ['HTTPS elsewhere', 80, 8443, [{ portRedirect: 8443 }]],
    [
      'HTTP elsewhere: who names its port is led to the other',
      8080,
      8443,
      [{ named: ':8080', portRedirect: 8443 }, { portRedirect: 0 }],
    ],
  ];
  for (const [what, plain, secure, expected] of redirects) {
    test(`redirect to HTTPS, ${what}`, () => {
      const tls = { mode: 'SIMPLE', serverCertificate: '/c', privateKey: '/k' };
      const servers = [
        { port: { number: plain, name: 'http', protocol: 'HTTP' }, hosts: ['a.example'], tls: { httpsRedirect: true } },
        { port: { number: secure, name: 'https', protocol: 'HTTPS' }, hosts: ['*.example'], tls },
        { port: { number: 444, name: 'other', protocol: 'HTTPS' }, hosts: ['b.example'], tls },
      ];
      const [host] = gatewayOutput({ servers }).routes.get(`http.${plain}`)?.virtualHosts ?? [];
      assert.deepEqual(
        host?.routes.map(({ match, redirect }) => {
          const named = match?.headers.find(({ name }) => name === ':authority')?.stringMatch?.suffix;
          return { ...(named === undefined ? {} : { named }), portRedirect: redirect?.portRedirect };
        }),
        expected,
      );
    });
  }

  test('HTTPS servers have routes of their own', () => {
    const tls = { mode: 'SIMPLE', serverCertificate: '/c', privateKey: '/k' };
    const servers = ['a', 'b'].map((name) => ({
      port: { number: 443, name, protocol: 'HTTPS' },
      hosts: [`${name}.example`],
      tls,
    }));
    const output = gatewayOutput({
      servers,
      services,
      virtualServices: [bound('all', ['*'], [{ route: TO_REVIEWS }])],
    });
    assert.deepEqual([...output.routes.keys()], ['https.443.a.gw.edge', 'https.443.b.gw.edge']);
    const [host] = output.routes.get('https.443.a.gw.edge')?.virtualHosts ?? [];
    assert.deepEqual(host?.domains, ['a.example']);
    assert.deepEqual(
      output.listeners.map(({ refs }) => refs),
      [['https.443.a.gw.edge', 'https.443.b.gw.edge']],
    );
  });

  describe('hosts whose server demands client certificates', () => {
    const server = (name: string, hosts: readonly string[], tls: object) => ({
      port: { number: 443, name, protocol: 'HTTPS' },
      hosts,
      tls: { serverCertificate: '/c', privateKey: '/k', ...tls },
    });
    const mutual = { mode: 'MUTUAL', caCertificates: '/ca' };
    const all = bound('all', ['*', 'private.example', 'x.private.example'], [{ route: TO_REVIEWS }]);
    /** Domains → whether they are answered with 421, at the server named `open`. */
    const open = (...servers: readonly object[]) => {
      const hosts = gatewayOutput({ servers, services, virtualServices: [all] }).routes.get('https.443.open.gw.edge');
      return Object.fromEntries(
        (hosts?.virtualHosts ?? []).map(({ domains, routes }) => [
          domains.join(),
          routes[0]?.directResponse?.status ?? 200,
        ]),
      );
    };

    test('are not served under the name of another server', () => {
      const simple = server('open', ['*'], { mode: 'SIMPLE' });
      const expected = { '*': 200, 'private.example': 421, 'x.private.example': 200 };
      assert.deepEqual(open(simple, server('private', ['private.example'], mutual)), expected);
      assert.deepEqual(open(server('private', ['private.example'], mutual), simple), expected);
      const wide = server('private', ['*.private.example', 'private.example'], mutual);
      assert.deepEqual(open(simple, wide), { '*': 200, '*.private.example': 421, 'private.example': 421 });
    });
    test('except within a closer name of the same server', () => {
      const simple = server('open', ['*.example', 'x.private.example'], { mode: 'SIMPLE' });
      const wide = server('private', ['*.private.example'], mutual);
      const within = { '*.example': 200, '*.private.example': 421, 'private.example': 200 };
      assert.deepEqual(open(simple, wide), { ...within, 'x.private.example': 200 });
      // A server for all names has no chain for closer ones: they lead to the other server.
      const all_ = server('open', ['*', 'x.private.example'], { mode: 'SIMPLE' });
      const { '*.example': _, ...others } = within;
      assert.deepEqual(open(all_, wide), { ...others, '*': 200, 'x.private.example': 421 });
    });
    test('are served where both servers have the same demands, or none', () => {
      const served = { '*': 200, 'private.example': 200, 'x.private.example': 200 };
      assert.deepEqual(open(server('open', ['*'], mutual), server('private', ['private.example'], mutual)), served);
      assert.deepEqual(
        open(server('open', ['*'], mutual), server('private', ['private.example'], { mode: 'SIMPLE' })),
        served,
      );
      const others = { ...mutual, caCertificates: '/other' };
      assert.equal(
        open(server('open', ['*'], mutual), server('p', ['private.example'], others))['private.example'],
        421,
      );
    });
    test('are not served even where the server lists the host, but the other one has its name', () => {
      const simple = server('open', ['*', 'private.example'], { mode: 'SIMPLE' });
      const private_ = server('private', ['private.example'], mutual);
      assert.equal(open(private_, simple)['private.example'], 421);
      // The server for all names has the host, but this server does not get its connections.
      assert.equal(open(simple, private_)['private.example'], 421);
      const named = server('open', ['other.example', 'private.example'], { mode: 'SIMPLE' });
      assert.equal(open(private_, named)['private.example'], 421);
      assert.equal(open(named, private_)['private.example'], 200);
    });
    test('are not served behind a passthrough server either, nor by wildcards that cannot be server names', () => {
      const simple = server('open', ['*.example', 'private.example'], { mode: 'SIMPLE' });
      const private_ = server('private', ['private.example'], mutual);
      const passing = { ...server('passing', ['private.example'], {}), tls: { mode: 'PASSTHROUGH' } };
      assert.equal(open(passing, private_, simple)['private.example'], 421);
      const odd = server('odd', ['*vate.example'], mutual);
      assert.deepEqual(open(server('open', ['*'], { mode: 'SIMPLE' }), odd), { '*': 200, '*vate.example': 421 });
    });
  });

  test('a route to an unknown destination is kept: Envoy returns HTTP 503', () => {
    const vs = bound('a', ['a.example'], [{ route: [{ destination: { host: 'gone.example' } }] }]);
    const config = gatewayOutput({ servers: [HTTP], virtualServices: [vs] }).routes.get('http.80');
    assert.equal(config?.virtualHosts[0]?.routes[0]?.route?.cluster, 'outbound|80||gone.example');
    assert.equal(config?.validateClusters?.value, false);
  });
});
