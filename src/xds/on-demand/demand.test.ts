/** What proxies get that ask for hosts: the hosts as Envoy would choose them, with their clusters, however they asked. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fakeClock } from '../../core/testing/fake-clock.ts';
import * as fc from '../../core/testing/properties.ts';
import { envoy } from '../../protobuf/index.ts';
import { type Bundle, resourceMessage } from '../../push/index.ts';
import { endpoints, inline, Mesh, meshResource, service, sidecar } from '../../push/testing/mesh.ts';
import { NO_NAMES } from '../protocol/index.ts';
import { EMPTY_REQUEST, newDemand, newShared } from '../testing/demand.ts';
import { MAX_ASKED } from './asked-names.ts';
import type { Demand } from './demand.ts';
import { FORGET_MS } from './learned-hosts.ts';
import { answerName, madeName } from './own-names.ts';
import type { SharedDemand } from './shared-demand.ts';

const { VirtualHost } = envoy.config.route.v3;
const { DeltaDiscoveryResponse } = envoy.service.discovery.v3;

const NAMESPACE = 'shop';
const ROUTES = '80';
const DNS = `${NAMESPACE}.svc.cluster.local`;

const ASKING = { mode: 'on-demand', workload: 'pod.shop', at: 0, since: 0 } as const;

function ask(
  { names }: SharedDemand,
  demand: Demand,
  asked: readonly string[],
  versions: ReadonlyMap<string, string> = new Map(),
) {
  const request = { ...EMPTY_REQUEST, subscribe: names.of(asked), initialVersions: versions };
  return demand.receive('vhds', request, ASKING);
}

async function connected(mesh: Mesh) {
  const node = {
    ...sidecar('10.1.0.1', NAMESPACE),
    discoversVirtualHosts: true,
    options: { configuration: 'on-demand' } as const,
  };
  const { session } = mesh.connect(node);
  await session.ready;
  return session;
}

const versionsOf = (bundles: readonly Bundle[]): ReadonlyMap<string, string> =>
  new Map(bundles.flatMap((bundle) => bundle.resources().map(({ name, version }) => [name, version] as const)));

/** The decoded resources as Envoy gets them: name → aliases and virtual host. */
function decoded(bundles: readonly Bundle[]) {
  return bundles.flatMap((bundle) =>
    bundle.resources().map(({ fragment }) => {
      const { resources = [] } = DeltaDiscoveryResponse.decode(fragment);
      const [resource] = resources;
      assert.ok(resource);
      const value = resource.resource?.value;
      return { name: resource.name ?? '', aliases: resource.aliases ?? [], host: value && VirtualHost.decode(value) };
    }),
  );
}

const clusters = (bundles: readonly Bundle[]) =>
  [...versionsOf(bundles).keys()].filter((name) => name.startsWith('outbound|')).sort();

test('a proxy gets the hosts that it asks for, under all names, with their clusters', async () => {
  const mesh = new Mesh(
    inline,
    ['a', 'b', 'c'].map((name) => service(NAMESPACE, name)),
  );
  const session = await connected(mesh);
  assert.equal(session.onDemand, 'on-demand');
  const shared = newShared();
  const demand = newDemand(shared);
  const first = demand.parts(session.content(), 'on-demand');
  assert.deepEqual(clusters(first.cds), []);
  assert.deepEqual(decoded(first.vhds), [{ name: answerName(`${ROUTES}/`), aliases: [`${ROUTES}/`], host: undefined }]);
  ask(shared, demand, [`${ROUTES}/a`, `${ROUTES}/a.${NAMESPACE}`, `${ROUTES}/b.${DNS}:80`]);
  const second = demand.parts(session.content(), 'on-demand');
  assert.deepEqual(clusters(second.cds), [`outbound|80||a.${DNS}`, `outbound|80||b.${DNS}`]);
  const answered = decoded(second.vhds).filter(({ host }) => host === undefined);
  assert.deepEqual(
    answered.flatMap(({ aliases }) => aliases),
    [`${ROUTES}/`, `${ROUTES}/a`, `${ROUTES}/a.${NAMESPACE}`, `${ROUTES}/b.${DNS}:80`],
  );
  assert.equal(demand.parts(session.content(), 'on-demand'), second);
  session.close();
});

test('an unknown host gets the catch-all for itself, so that Envoy asks for the next host', async () => {
  const mesh = new Mesh(inline, [service(NAMESPACE, 'a')]);
  const session = await connected(mesh);
  const shared = newShared();
  const demand = newDemand(shared);
  ask(shared, demand, [`${ROUTES}/example.com`]);
  const [made] = decoded(demand.parts(session.content(), 'on-demand').vhds).filter(({ host }) => host !== undefined);
  assert.equal(made?.name, madeName(`${ROUTES}/example.com`));
  assert.deepEqual(made?.host?.domains, ['example.com']);
  assert.equal(made?.host?.routes?.[0]?.route?.cluster, 'PassthroughCluster');
  session.close();
});

test('a proxy that asks for too many hosts gets everything, and answers, and keeps it', async () => {
  const mesh = new Mesh(inline, [service(NAMESPACE, 'a')]);
  const session = await connected(mesh);
  const shared = newShared();
  const asked = Array.from({ length: MAX_ASKED + 1 }, (_, at) => `${ROUTES}/unknown${at}`);
  const demand = newDemand(shared);
  ask(shared, demand, asked);
  const parts = demand.parts(session.content(), 'on-demand');
  assert.equal(parts.cds, session.content().cds);
  const has = versionsOf(parts.vhds);
  for (const name of [...versionsOf(session.content().vhds).keys(), ...asked.map(answerName)])
    assert.ok(has.has(name), name);
  session.close();
});

test('a proxy that was sent everything keeps it', async () => {
  const mesh = new Mesh(inline, [service(NAMESPACE, 'a')]);
  const session = await connected(mesh);
  const shared = newShared();
  const demand = newDemand(shared);
  ask(shared, demand, [`${ROUTES}/a`]);
  const whole = demand.parts(session.content(), undefined);
  assert.equal(whole.cds, session.content().cds);
  assert.ok(versionsOf(whole.vhds).has(answerName(`${ROUTES}/a`)));
  assert.equal(demand.parts(session.content(), 'on-demand'), whole);
  const other = newDemand(shared);
  assert.equal(other.parts(session.content(), undefined), session.content());
  assert.equal(other.parts(session.content(), 'on-demand'), session.content());
  session.close();
});

test('a name that is asked for again is answered again', async () => {
  const mesh = new Mesh(inline, [service(NAMESPACE, 'a')]);
  const session = await connected(mesh);
  const shared = newShared();
  const demand = newDemand(shared);
  const names = [`${ROUTES}/a`, `${ROUTES}/a.${DNS}:80`, `${ROUTES}/unknown.example`, `${ROUTES}/ready`];
  assert.equal(ask(shared, demand, names).subscribe.size, 0);
  assert.deepEqual([...ask(shared, demand, names).subscribe.names].sort(), names.map(answerName).sort());
  const has = versionsOf(demand.parts(session.content(), 'on-demand').vhds);
  for (const name of names) assert.ok(has.has(answerName(name)), name);
  session.close();
});

test('a change of what a proxy does not use leaves its resources as they are', async () => {
  const mesh = new Mesh(inline, [service(NAMESPACE, 'a'), service(NAMESPACE, 'b', { clusterIP: '10.9.0.2' })]);
  const session = await connected(mesh);
  const shared = newShared();
  const demand = newDemand(shared);
  ask(shared, demand, [`${ROUTES}/a`, `${ROUTES}/c`]);
  const before = demand.parts(session.content(), 'on-demand');
  mesh.change([
    meshResource('VirtualService', NAMESPACE, 'b', {
      hosts: ['b'],
      http: [{ timeout: '3s', route: [{ destination: { host: 'b' } }] }],
    }),
  ]);
  mesh.change([service(NAMESPACE, 'd', { clusterIP: '10.9.0.4' })]);
  await mesh.settled();
  const after = demand.parts(session.content(), 'on-demand');
  assert.notEqual(session.content().vhds, before.vhds);
  assert.deepEqual(
    after.vhds.map((each) => before.vhds.includes(each)),
    after.vhds.map(() => true),
  );
  assert.deepEqual(
    after.cds.map((each) => before.cds.includes(each)),
    after.cds.map(() => true),
  );
  mesh.change([service(NAMESPACE, 'c', { clusterIP: '10.9.0.3' })]);
  await mesh.settled();
  assert.ok(clusters(demand.parts(session.content(), 'on-demand').cds).includes(`outbound|80||c.${DNS}`));
  session.close();
});

test('a long host gets the virtual host of its longest suffix', async () => {
  const routed = (name: string, host: string) =>
    meshResource('VirtualService', NAMESPACE, name, {
      hosts: [host],
      http: [{ route: [{ destination: { host: 'a' } }], headers: { response: { set: { suffix: host } } } }],
    });
  const suffixes = ['*.example', '*-db.example', '*.long.db.example'];
  const mesh = new Mesh(inline, [service(NAMESPACE, 'a'), ...suffixes.map((host, at) => routed(`suffix-${at}`, host))]);
  const session = await connected(mesh);
  const shared = newShared();
  const demand = newDemand(shared);
  const long = 'x'.repeat(4000);
  const asked = ['.example', '-db.example', '.long.db.example', 'long.db.example', 'example'];
  ask(
    shared,
    demand,
    asked.map((end) => `${ROUTES}/${long}${end}`),
  );
  const made = decoded(demand.parts(session.content(), 'on-demand').vhds).flatMap(({ host }) => host ?? []);
  const found = new Map(
    made.map(({ domains = [], routes = [] }) => [
      domains[0]?.slice(long.length),
      routes[0]?.responseHeadersToAdd?.[0]?.header?.value,
    ]),
  );
  const expected = ['*.example', '*-db.example', '*.long.db.example', '*.example', undefined];
  assert.deepEqual(found, new Map(asked.map((end, at) => [end, expected[at]])));
  session.close();
});

test('a host with a wildcard gets no virtual host', async () => {
  const mesh = new Mesh(inline, [service(NAMESPACE, 'a')]);
  const session = await connected(mesh);
  const shared = newShared();
  const demand = newDemand(shared);
  ask(shared, demand, [`${ROUTES}/*`, `${ROUTES}/*.${DNS}`]);
  const hosts = decoded(demand.parts(session.content(), 'on-demand').vhds);
  assert.deepEqual(
    hosts.map(({ aliases, host }) => [aliases, host]),
    [`${ROUTES}/`, `${ROUTES}/*`, `${ROUTES}/*.${DNS}`].map((name) => [[name], undefined]),
  );
  session.close();
});

test('a proxy that reconnects keeps what it reports', async () => {
  const mesh = new Mesh(inline, [service(NAMESPACE, 'a'), service(NAMESPACE, 'b')]);
  const session = await connected(mesh);
  const shared = newShared();
  const before = newDemand(shared);
  const names = ['*', `${ROUTES}/a`, `${ROUTES}/elsewhere.example`];
  ask(shared, before, names);
  const had = before.parts(session.content(), 'on-demand');
  const after = newDemand(shared);
  // Clusters come first: they must not be removed before virtual hosts are reported.
  const request = { subscribe: NO_NAMES, initialVersions: versionsOf(had.cds) };
  after.receive('cds', { ...EMPTY_REQUEST, ...request }, ASKING);
  assert.deepEqual(versionsOf(after.parts(session.content(), 'on-demand').cds), versionsOf(had.cds));
  const passedOn = ask(shared, after, names, versionsOf(had.vhds));
  assert.deepEqual([...passedOn.subscribe.names], ['*']);
  assert.deepEqual(versionsOf(after.parts(session.content(), 'on-demand').vhds), versionsOf(had.vhds));
  session.close();
});

test('a proxy gets what others of its view have asked for within a day, and keeps it', async () => {
  const mesh = new Mesh(
    inline,
    ['a', 'b', 'c'].map((name) => service(NAMESPACE, name)),
  );
  const session = await connected(mesh);
  const clock = fakeClock();
  const shared = newShared(clock);
  const first = newDemand(shared);
  ask(shared, first, [`${ROUTES}/a`, `${ROUTES}/unknown.example`]);
  first.parts(session.content(), 'learned');
  const second = newDemand(shared);
  assert.deepEqual(clusters(second.parts(session.content(), 'learned').cds), [`outbound|80||a.${DNS}`]);
  assert.ok(
    !decoded(second.parts(session.content(), 'learned').vhds).some(({ aliases }) =>
      aliases.includes(`${ROUTES}/unknown.example`),
    ),
  );
  ask(shared, first, [`${ROUTES}/b`]);
  first.parts(session.content(), 'learned');
  const both = [`outbound|80||a.${DNS}`, `outbound|80||b.${DNS}`];
  assert.deepEqual(clusters(second.parts(session.content(), 'learned').cds), both);
  assert.deepEqual(clusters(newDemand(shared).parts(session.content(), 'on-demand').cds), []);
  first.end();
  await clock.advance(FORGET_MS + 1);
  assert.deepEqual(clusters(newDemand(shared).parts(session.content(), 'learned').cds), []);
  assert.deepEqual(clusters(second.parts(session.content(), 'learned').cds), both);
  session.close();
});

test('others of its view get a host that a proxy asked for before there was one', async () => {
  const mesh = new Mesh(inline, [service(NAMESPACE, 'a')]);
  const session = await connected(mesh);
  const shared = newShared();
  const [first, second] = [newDemand(shared), newDemand(shared)];
  ask(shared, first, [`${ROUTES}/late`]);
  const has = (demand: Demand) => clusters(demand.parts(session.content(), 'learned').cds);
  assert.deepEqual([has(first), has(second)], [[], []]);
  mesh.change([service(NAMESPACE, 'late')]);
  await mesh.settled();
  const late = [`outbound|80||late.${DNS}`];
  assert.deepEqual([has(first), has(second)], [late, late]);
  session.close();
});

test('a proxy waits for a learned host whose clusters are generated later, also where nothing else changes', async () => {
  const mesh = new Mesh(
    inline,
    ['a', 'b'].map((name) => service(NAMESPACE, name)),
  );
  const session = await connected(mesh);
  const shared = newShared();
  const [first, second] = [newDemand(shared), newDemand(shared)];
  const late = `outbound|80||b.${DNS}`;
  const later = { has: (cluster: string) => cluster === late, want: () => {}, need: () => undefined };
  const parts = () => second.parts(session.content(), 'learned', { laterClusters: later });
  const waits = () => second.held?.some((names) => names.has(late));
  parts();
  assert.equal(waits(), false);
  ask(shared, first, [`${ROUTES}/b`]);
  first.parts(session.content(), 'learned');
  assert.deepEqual([clusters(parts().cds), waits()], [[], true]);
  session.close();
});

test('hosts that a Sidecar names are there without having been asked for, others are asked for', async () => {
  const mesh = new Mesh(inline, [
    ...['a', 'b', 'c'].map((name) => service(NAMESPACE, name)),
    service('other', 'd'),
    meshResource('Sidecar', NAMESPACE, 'only', { egress: [{ hosts: ['./*', `./a.${DNS}`] }] }),
  ]);
  const session = await connected(mesh);
  const shared = newShared();
  const demand = newDemand(shared);
  const parts = () => demand.parts(session.content(), 'on-demand', { named: session.namedHosts });
  assert.deepEqual(clusters(parts().cds), [`outbound|80||a.${DNS}`]);
  ask(shared, demand, [`${ROUTES}/b`, `${ROUTES}/d.other`]);
  assert.deepEqual(clusters(parts().cds), [`outbound|80||a.${DNS}`, `outbound|80||b.${DNS}`]);
  session.close();
});

const NAMES = ['a', 'b', 'c', 'x-part.example', 'ready', 'one.wild.example', 'two.wild.example'];
const step = fc.oneof(
  fc.record({ kind: fc.constant('service' as const), name: fc.constantFrom('a', 'b', 'c'), exists: fc.boolean() }),
  fc.record({
    kind: fc.constant('route' as const),
    host: fc.constantFrom('a', 'b', '*.wild.example', 'one.wild.example', '*-part.example'),
    to: fc.constantFrom('a', 'b', 'c'),
    exists: fc.boolean(),
  }),
  fc.record({
    kind: fc.constant('endpoints' as const),
    name: fc.constantFrom('a', 'b', 'c'),
    address: fc.integer({ min: 1, max: 3 }),
  }),
  fc.record({
    kind: fc.constant('ask' as const),
    name: fc.constantFrom(...NAMES, `a.${NAMESPACE}`, `b.${DNS}:80`, 'x.example'),
  }),
);

test('property: what a proxy has is what a fresh one would get for the same names, and Envoy can load it', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 14 }), async (steps) => {
      const mesh = new Mesh(inline, [service(NAMESPACE, 'a'), service(NAMESPACE, 'b')]);
      const session = await connected(mesh);
      const shared = newShared();
      const demand = newDemand(shared);
      for (const each of steps) {
        if (each.kind === 'ask') ask(shared, demand, [`${ROUTES}/${each.name}`]);
        else if (each.kind === 'service') {
          const key = `Service/${NAMESPACE}/${each.name}`;
          mesh.change(each.exists ? [service(NAMESPACE, each.name)] : [], each.exists ? [] : [key]);
        } else if (each.kind === 'endpoints') {
          mesh.change([endpoints(NAMESPACE, each.name, `10.2.0.${each.address}`)]);
        } else {
          const name = `r${each.host.replaceAll('*', 'star')}`;
          const http = [{ route: [{ destination: { host: each.to } }] }];
          const rule = meshResource('VirtualService', NAMESPACE, name, { hosts: [each.host], http });
          mesh.change(each.exists ? [rule] : [], each.exists ? [] : [`VirtualService/${NAMESPACE}/${name}`]);
        }
        await mesh.settled();
        const parts = demand.parts(session.content(), 'on-demand');
        const fresh = newShared();
        const again = newDemand(fresh);
        const { names: asked } = demand.namesOf('vhds', NO_NAMES);
        ask(fresh, again, [...asked]);

        const expected = again.parts(session.content(), 'on-demand');
        for (const type of ['cds', 'vhds'] as const)
          assert.deepEqual(versionsOf(parts[type]), versionsOf(expected[type]), type);
        // It keeps endpoints of clusters that it had.
        const [own, all] = [versionsOf(parts.eds), versionsOf(session.content().eds)];
        for (const name of versionsOf(expected.eds).keys()) assert.ok(own.has(name), name);
        for (const [name, version] of own) assert.equal(version, all.get(name), name);
        const hosts = decoded(parts.vhds);
        const answered = new Set(hosts.flatMap(({ name, aliases }) => [name, ...aliases]));
        for (const name of asked) assert.ok(answered.has(name), `${name} is answered`);
        const domains = hosts.flatMap(({ host }) => host?.domains ?? []);
        assert.equal(new Set(domains).size, domains.length, 'each domain is in one virtual host');
        assert.ok(!domains.some((domain) => domain.startsWith('*')), 'no virtual host takes what was not asked for');
        const has = versionsOf(parts.cds);
        const everything = versionsOf(session.content().cds);
        for (const bundle of parts.vhds)
          for (const resource of bundle.resources().filter(({ anyOffset, fragment }) => anyOffset < fragment.length))
            for (const { route } of VirtualHost.decode(resourceMessage(resource)).routes ?? [])
              if (route?.cluster) assert.equal(has.has(route.cluster), everything.has(route.cluster), route.cluster);
      }
      session.close();
    }),
    { numRuns: 60 },
  );
});
