import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { ServicePort } from '../../model/types/types.ts';
import { envoy } from '../../protobuf/index.ts';
import { MeshReader } from '../reads/index.ts';
import {
  httpPort,
  REVIEWS,
  serviceOf,
  snapshotOf,
  type TestWorld,
  TO_REVIEWS,
  virtualServiceOf,
} from '../testing/routes.ts';
import { outboundView } from '../testing/views.ts';
import type { OutboundView } from '../views.ts';
import { discoveredUnits, outboundRoutes, outboundRouteUnits, outboundVirtualHosts } from './index.ts';

const { RouteConfiguration, VirtualHost } = envoy.config.route.v3;

function output(world: TestWorld, view = outboundView()) {
  const snapshot = snapshotOf(world);
  const units = outboundRouteUnits(MeshReader.of(snapshot), view).map((unit) =>
    outboundRoutes(MeshReader.of(snapshot), view, unit),
  );
  const resources = units.flatMap(({ resources }) => resources);
  return {
    routes: new Map(resources.map(({ name, bytes }) => [name, RouteConfiguration.decode(bytes)])),
    bytes: new Map(resources.map(({ name, bytes }) => [name, bytes])),
    findings: units.flatMap(({ findings }) => findings),
  };
}

/** Host names and the destinations of their first routes. */
function summary(config: envoy.config.route.v3.RouteConfiguration | undefined) {
  return config?.virtualHosts.map(({ name, routes }) => [name, routes.map(({ route }) => route?.cluster ?? '')]);
}

const reviews = serviceOf('reviews', [httpPort(9080)], { addresses: ['10.0.0.1'] });
const ratings = serviceOf('ratings', [httpPort(9080)], { addresses: ['10.0.0.2'] });
const RATINGS = ratings.hostname;
const UNSAID: ServicePort = { name: 'x', port: 7000, protocol: 'Unsupported' };

describe('virtual hosts of a port', () => {
  test('every HTTP service on it, then the catch-all', () => {
    const config = output({ services: [reviews, ratings] }).routes.get('9080');
    assert.deepEqual(summary(config), [
      [`${RATINGS}:9080`, [`outbound|9080||${RATINGS}`]],
      [`${REVIEWS}:9080`, [`outbound|9080||${REVIEWS}`]],
      ['allow_any', ['PassthroughCluster']],
    ]);
    assert.ok(config?.virtualHosts[1]?.domains.includes('reviews:9080'));
    assert.ok(config?.virtualHosts.every(({ includeRequestAttemptCount }) => includeRequestAttemptCount));
    assert.equal(config?.validateClusters?.value, false);
  });

  test('an address of two entries belongs to the older one, whatever their names are', () => {
    const entry = (name: string, created: number) =>
      serviceOf(name, [httpPort(9080)], { addresses: ['240.0.0.1'], registry: 'External', created });
    const domains = (services: NonNullable<TestWorld['services']>) =>
      output({ services })
        .routes.get('9080')
        ?.virtualHosts.filter(({ domains: all }) => all.includes('240.0.0.1'))
        .map(({ name }) => name.split('.')[0]);
    assert.deepEqual(domains([entry('a', 1), entry('b', 2)]), ['a']);
    assert.deepEqual(domains([entry('a', 2), entry('b', 1)]), ['b']);
  });

  test('unknown hosts are refused where only known ones are allowed', () => {
    const config = output({ services: [reviews], outboundTrafficPolicy: 'REGISTRY_ONLY' }).routes.get('9080');
    const last = config?.virtualHosts.at(-1);
    assert.equal(last?.name, 'block_all');
    assert.equal(last?.routes[0]?.directResponse?.status, 502);
  });

  test('a virtual service replaces the routes of its hosts; others stay the same', () => {
    const vs = virtualServiceOf({
      hosts: [REVIEWS],
      http: [{ route: [{ destination: { host: REVIEWS, subset: 'v2' } }] }],
    });
    const config = output({ services: [reviews, ratings], virtualServices: [vs] }).routes.get('9080');
    assert.deepEqual(summary(config)?.slice(0, 2), [
      [`${RATINGS}:9080`, [`outbound|9080||${RATINGS}`]],
      [`${REVIEWS}:9080`, [`outbound|9080|v2|${REVIEWS}`]],
    ]);
    assert.ok(config?.virtualHosts[1]?.domains.includes('10.0.0.1'));
  });

  test('a wildcard matches every service that it covers', () => {
    const vs = virtualServiceOf({ hosts: ['*.default.svc.cluster.local'], http: [{ route: TO_REVIEWS }] });
    const config = output({ services: [reviews, ratings], virtualServices: [vs] }).routes.get('9080');
    const clusters = summary(config)?.map(([, routes]) => routes);
    assert.deepEqual(clusters?.slice(0, 2), [[`outbound|9080||${REVIEWS}`], [`outbound|9080||${REVIEWS}`]]);
  });

  test('a virtual service without a route for this port does not affect the service', () => {
    const vs = virtualServiceOf({ hosts: [REVIEWS], http: [{ match: [{ port: 1 }], redirect: { uri: '/' } }] });
    const config = output({ services: [reviews], virtualServices: [vs] }).routes.get('9080');
    assert.deepEqual(summary(config)?.[0], [`${REVIEWS}:9080`, [`outbound|9080||${REVIEWS}`]]);
  });

  test('source labels and namespace choose routes', () => {
    const subset = (name: string) => [{ destination: { host: REVIEWS, subset: name } }];
    const vs = virtualServiceOf({
      hosts: [REVIEWS],
      http: [
        { match: [{ sourceLabels: { app: 'web' } }], route: subset('web') },
        { match: [{ sourceNamespace: 'default' }], route: subset('own') },
        { route: subset('rest') },
      ],
    });
    const first = (view: OutboundView) =>
      output({ services: [reviews], virtualServices: [vs] }, view).routes.get('9080')?.virtualHosts[0]?.routes[0]?.route
        ?.cluster;
    assert.equal(first(outboundView({ sourceLabels: { app: 'web' } })), `outbound|9080|web|${REVIEWS}`);
    assert.equal(first(outboundView()), `outbound|9080|own|${REVIEWS}`);
    assert.equal(first(outboundView({ namespace: 'shop' })), `outbound|9080|rest|${REVIEWS}`);
  });

  test('the first of two virtual services for one host wins, and the other is reported', () => {
    const vs = (name: string, subset: string) =>
      virtualServiceOf({ hosts: [REVIEWS], http: [{ route: [{ destination: { host: REVIEWS, subset } }] }] }, { name });
    const { routes, findings } = output({ services: [reviews], virtualServices: [vs('old', 'v1'), vs('new', 'v2')] });
    assert.deepEqual(summary(routes.get('9080'))?.[0], [`${REVIEWS}:9080`, [`outbound|9080|v1|${REVIEWS}`]]);
    assert.equal(findings[0]?.metric, 'ctl_vservice_dup_domain');
    assert.match(
      findings[0]?.message ?? '',
      /VirtualService default\/new: domain reviews.* VirtualService default\/old/,
    );
  });

  test('hosts that no service has on port 80 are served there by their virtual services, and only there', () => {
    const web = serviceOf('web', [httpPort(80), httpPort(81)]);
    const vs = virtualServiceOf({
      hosts: ['api.example.com', '*.example.org', REVIEWS],
      http: [{ route: TO_REVIEWS }],
    });
    const { routes } = output({ services: [web, reviews], virtualServices: [vs] });
    const to = [`outbound|9080||${REVIEWS}`];
    assert.deepEqual(summary(routes.get('80'))?.slice(0, 2), [
      ['*.example.org:80', to],
      ['api.example.com:80', to],
    ]);
    assert.deepEqual(
      summary(routes.get('80'))
        ?.map(([name]) => name)
        .slice(2),
      // Its own port is 9080; requests to it on port 80 are routed there.
      [`${REVIEWS}:80`, `${web.hostname}:80`, 'allow_any'],
    );
    assert.deepEqual(
      summary(routes.get('81'))?.map(([name]) => name),
      [`${web.hostname}:81`, 'allow_any'],
    );
  });

  test('a service with another protocol than HTTP on port 80 is not a host there', () => {
    const tcp = serviceOf('tcp', [{ name: 'tcp', port: 80, protocol: 'TCP' }]);
    const web = serviceOf('web', [httpPort(80)]);
    const vs = virtualServiceOf({ hosts: [tcp.hostname], http: [{ route: TO_REVIEWS }] });
    const { routes } = output({ services: [web, tcp, reviews], virtualServices: [vs] });
    assert.deepEqual(
      summary(routes.get('80'))?.map(([name]) => name),
      [`${web.hostname}:80`, 'allow_any'],
    );
  });

  test('a service for all hosts replaces the catch-all', () => {
    const any = serviceOf('any', [httpPort(80)], { hostname: '*', resolution: 'passthrough' });
    const config = output({ services: [any] }).routes.get('80');
    assert.deepEqual(
      config?.virtualHosts.map(({ name, domains }) => [name, domains]),
      [['*:80', ['*']]],
    );
  });
});

test('a service with a listener of its own accepts any host', () => {
  const service = serviceOf('x', [UNSAID], { addresses: ['10.0.0.9'] });
  const config = output({ services: [service] }).routes.get(`${service.hostname}:7000`);
  assert.deepEqual(
    config?.virtualHosts.map(({ domains }) => domains),
    [['*']],
  );
  assert.equal(config?.virtualHosts[0]?.routes[0]?.route?.cluster, `outbound|7000||${service.hostname}`);
});

test('hash settings of destination rules are part of default routes', () => {
  const rule = {
    host: REVIEWS,
    namespace: 'default',
    subsets: [],
    sources: [],
    trafficPolicy: { loadBalancer: { consistentHash: { useSourceIp: true } } },
  };
  const config = output({ services: [reviews], destinationRules: [rule] }).routes.get('9080');
  assert.equal(config?.virtualHosts[0]?.routes[0]?.route?.hashPolicy[0]?.connectionProperties?.sourceIp, true);
});

test('a cached virtual host equals a newly encoded one', () => {
  const vs = virtualServiceOf({ hosts: [RATINGS], http: [{ timeout: '1s', route: TO_REVIEWS }] });
  const world: TestWorld = { services: [reviews, ratings], virtualServices: [vs] };
  output(world);
  // The ports of reviews decide the destination of the virtual service of ratings: its cached bytes must not be used.
  const moved = serviceOf('reviews', [httpPort(9090)]);
  const second = { ...world, services: [moved, ratings] };
  const cached = output(second).bytes;
  // Copies are other objects, for which nothing is cached.
  const fresh = output(structuredClone(second)).bytes;
  assert.deepEqual([...cached.keys()], ['9080', '9090']);
  for (const [name, bytes] of cached) assert.equal(Buffer.compare(bytes, fresh.get(name) ?? new Uint8Array(0)), 0);
  const route = RouteConfiguration.decode(cached.get('9080') ?? new Uint8Array(0)).virtualHosts[0]?.routes[0]?.route;
  assert.equal(route?.cluster, `outbound|9090||${REVIEWS}`);
});

test('a unit that does not exist has no resources', () => {
  assert.deepEqual(outboundRoutes(MeshReader.of(snapshotOf({})), outboundView(), '9080'), {
    resources: [],
    findings: [],
  });
  assert.deepEqual(
    outboundRoutes(MeshReader.of(snapshotOf({ services: [reviews] })), outboundView({ scope: 'gone/' }), '9080')
      .resources,
    [],
  );
});

describe('discovered virtual hosts', () => {
  const discovering = outboundView({ virtualHosts: 'discovered' });
  const world = { services: [reviews, ratings, serviceOf('unsaid', [UNSAID], { addresses: ['10.0.0.3'] })] };

  function hostsOf(snapshot: ReturnType<typeof snapshotOf>, unit: string) {
    return outboundVirtualHosts(MeshReader.of(snapshot), discovering, unit);
  }

  test('equal the virtual hosts of the whole configuration except for their names, including the catch-all', () => {
    const { virtualHosts = [] } = output(world).routes.get('9080') ?? {};
    const discovered = hostsOf(snapshotOf(world), '9080').resources;
    assert.deepEqual(
      discovered.map(({ bytes }) => VirtualHost.decode(bytes)),
      virtualHosts.map((host) =>
        VirtualHost.decode(VirtualHost.encode({ ...host, name: `9080/${host.name}` }).finish()),
      ),
    );
    assert.deepEqual(
      discovered.map(({ name }) => name),
      [`9080/${RATINGS}:9080`, `9080/${REVIEWS}:9080`, '9080/allow_any'],
    );
  });

  test('leave a configuration that no change of a service or virtual service touches', () => {
    const before = output(world, discovering);
    const after = output(
      {
        ...world,
        services: [...world.services, serviceOf('more', [httpPort(9080)])],
        virtualServices: [virtualServiceOf({ hosts: [REVIEWS], http: [{ route: TO_REVIEWS }] })],
      },
      discovering,
    );
    assert.deepEqual(after.bytes.get('9080'), before.bytes.get('9080'));
    const config = before.routes.get('9080');
    assert.deepEqual([config?.virtualHosts, config?.vhds?.configSource?.ads !== null], [[], true]);
    assert.equal(config?.validateClusters?.value, false);
  });

  test('are the same objects from one generation to the next', () => {
    const snapshot = snapshotOf(world);
    const [first, second] = [hostsOf(snapshot, '9080').resources, hostsOf(snapshot, '9080').resources];
    assert.ok(first.every((host, index) => host === second[index]));
  });

  test('exclude those of a service with routes of its own, and of views without discovery', () => {
    const snapshot = snapshotOf(world);
    assert.deepEqual(discoveredUnits(MeshReader.of(snapshot), discovering), ['9080']);
    assert.deepEqual(discoveredUnits(MeshReader.of(snapshot), outboundView()), []);
    const own = outboundRouteUnits(MeshReader.of(snapshot), discovering).find((unit) => unit !== '9080') ?? '';
    assert.equal(output(world, discovering).routes.get(own)?.virtualHosts.length, 1);
    assert.deepEqual(hostsOf(snapshot, own).resources, []);
    assert.deepEqual(outboundVirtualHosts(MeshReader.of(snapshot), outboundView(), '9080').resources, []);
  });
});
