import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { envoy } from '../../protobuf/index.ts';
import { gatewayOf, httpPort, REVIEWS, serviceOf, TO_REVIEWS, virtualServiceOf } from '../routes/testing.ts';
import { gatewayOutput, viewOf } from './testing.ts';

const HTTP = { port: { number: 80, name: 'http', protocol: 'HTTP' }, hosts: ['*'] };
const services = [serviceOf('reviews', [httpPort(9080)])];
const { ALL, NONE } = envoy.config.route.v3.VirtualHost.TlsRequirementType;

const OLD = { created: 1 };
const NEW = { created: 2 };

function bound(name: string, hosts: readonly string[], http: readonly unknown[], gateways = ['edge/gw']) {
  return virtualServiceOf({ hosts, gateways, http }, { name });
}

describe('routes of a gateway port', () => {
  test('a virtual host for each host, led to the service', () => {
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

  test('matches that name other gateways or ports do not come along', () => {
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

  test('servers of several gateways share the port; each takes the virtual services bound to it', () => {
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
    assert.deepEqual(
      output.routes.get('http.80')?.virtualHosts.map(({ name, requireTls }) => [name, requireTls]),
      [
        ['a.example:80', ALL],
        ['b.example:80', ALL],
      ],
    );
  });

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
    assert.deepEqual([host?.domains, host?.requireTls], [['a.example'], NONE]);
    assert.deepEqual(
      output.listeners.map(({ refs }) => refs),
      [['https.443.a.gw.edge', 'https.443.b.gw.edge']],
    );
  });

  test('a route of an unknown destination is kept: Envoy answers 503', () => {
    const vs = bound('a', ['a.example'], [{ route: [{ destination: { host: 'gone.example' } }] }]);
    const config = gatewayOutput({ servers: [HTTP], virtualServices: [vs] }).routes.get('http.80');
    assert.equal(config?.virtualHosts[0]?.routes[0]?.route?.cluster, 'outbound|80||gone.example');
    assert.equal(config?.validateClusters?.value, false);
  });
});
