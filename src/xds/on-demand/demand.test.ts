/** What proxies get that ask for hosts: the hosts as Envoy would choose them, with their clusters, however they asked. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Memos } from '../../core/memo.ts';
import { fakeClock } from '../../core/testing/fake-clock.ts';
import { envoy } from '../../protobuf/index.ts';
import { type Bundle, resourceMessage } from '../../push/index.ts';
import { inline, Mesh, meshResource, service, sidecar } from '../../push/testing/mesh.ts';
import { type DeltaRequest, NameSets, NO_NAMES } from '../protocol/index.ts';
import { Demand, MAX_ASKED, MAX_MADE } from './demand.ts';
import { FORGET_MS, LearnedHosts } from './learned-hosts.ts';
import { SharedDemand } from './shared-demand.ts';

const { VirtualHost } = envoy.config.route.v3;
const { DeltaDiscoveryResponse } = envoy.service.discovery.v3;

const NAMESPACE = 'shop';
const ROUTES = '80';
const DNS = `${NAMESPACE}.svc.cluster.local`;

function newShared(clock = fakeClock()): SharedDemand {
  const memos = new Memos();
  return new SharedDemand(new NameSets(memos), memos, () => clock.now());
}

function ask(
  { names }: SharedDemand,
  demand: Demand,
  asked: readonly string[],
  versions: ReadonlyMap<string, string> = new Map(),
) {
  const request: DeltaRequest = {
    typeUrl: 'type.googleapis.com/envoy.config.route.v3.VirtualHost',
    responseNonce: '',
    nack: undefined,
    node: undefined,
    subscribe: names.of(asked),
    unsubscribe: NO_NAMES,
    initialVersions: versions,
  };
  return demand.receive(request);
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
  const demand = new Demand(shared);
  const first = demand.parts(session.content(), 'on-demand');
  assert.deepEqual(clusters(first.cds), []);
  assert.deepEqual(decoded(first.vhds), [{ name: `${ROUTES}/ready`, aliases: [`${ROUTES}/ready`], host: undefined }]);
  ask(shared, demand, [`${ROUTES}/a`, `${ROUTES}/a.${NAMESPACE}`, `${ROUTES}/b.${DNS}:80`]);
  const second = demand.parts(session.content(), 'on-demand');
  assert.deepEqual(clusters(second.cds), [`outbound|80||a.${DNS}`, `outbound|80||b.${DNS}`]);
  const answered = decoded(second.vhds).filter(({ host }) => host === undefined);
  assert.deepEqual(
    answered.flatMap(({ aliases }) => aliases),
    [`${ROUTES}/a`, `${ROUTES}/a.${NAMESPACE}`, `${ROUTES}/ready`],
  );
  assert.equal(demand.parts(session.content(), 'on-demand'), second);
  session.close();
});

test('an unknown host gets the catch-all for itself, so that Envoy asks for the next host', async () => {
  const mesh = new Mesh(inline, [service(NAMESPACE, 'a')]);
  const session = await connected(mesh);
  const shared = newShared();
  const demand = new Demand(shared);
  ask(shared, demand, [`${ROUTES}/example.com`]);
  const [made] = decoded(demand.parts(session.content(), 'on-demand').vhds).filter(({ host }) => host !== undefined);
  assert.deepEqual(made?.aliases, [`${ROUTES}/example.com`]);
  assert.deepEqual(made?.host?.domains, ['example.com']);
  assert.equal(made?.host?.routes?.[0]?.route?.cluster, 'PassthroughCluster');
  session.close();
});

test('a proxy that asks for too many hosts, or too many unknown ones, gets everything and its answers', async () => {
  const mesh = new Mesh(inline, [service(NAMESPACE, 'a')]);
  const session = await connected(mesh);
  const shared = newShared();
  const unknown = Array.from({ length: MAX_MADE + 1 }, (_, at) => `${ROUTES}/unknown${at}`);
  const many = Array.from({ length: MAX_ASKED + 1 }, (_, at) => `${at}/a`);
  for (const asked of [unknown, many]) {
    const demand = new Demand(shared);
    ask(shared, demand, asked);
    const parts = demand.parts(session.content(), 'on-demand');
    assert.equal(parts.cds, session.content().cds);
    const has = versionsOf(parts.vhds);
    for (const name of [...versionsOf(session.content().vhds).keys(), ...asked]) assert.ok(has.has(name), name);
  }
  session.close();
});

test('a proxy that no longer asks gets everything, and answers to what it has asked for', async () => {
  const mesh = new Mesh(inline, [service(NAMESPACE, 'a')]);
  const session = await connected(mesh);
  const shared = newShared();
  const demand = new Demand(shared);
  assert.equal(demand.parts(session.content(), undefined), session.content());
  ask(shared, demand, [`${ROUTES}/a`]);
  const parts = demand.parts(session.content(), undefined);
  assert.equal(parts.cds, session.content().cds);
  assert.ok(versionsOf(parts.vhds).has(`${ROUTES}/a`));
  session.close();
});

test('a host with a wildcard gets no virtual host', async () => {
  const mesh = new Mesh(inline, [service(NAMESPACE, 'a')]);
  const session = await connected(mesh);
  const shared = newShared();
  const demand = new Demand(shared);
  ask(shared, demand, [`${ROUTES}/*`, `${ROUTES}/*.${DNS}`]);
  const hosts = decoded(demand.parts(session.content(), 'on-demand').vhds);
  assert.deepEqual(
    hosts.map(({ aliases, host }) => [aliases, host]),
    [`${ROUTES}/*`, `${ROUTES}/*.${DNS}`, `${ROUTES}/ready`].map((name) => [[name], undefined]),
  );
  session.close();
});

test('a proxy that reconnects has asked for what it reports', async () => {
  const mesh = new Mesh(inline, [service(NAMESPACE, 'a'), service(NAMESPACE, 'b')]);
  const session = await connected(mesh);
  const shared = newShared();
  const before = new Demand(shared);
  ask(shared, before, ['*', `${ROUTES}/a`, `${ROUTES}/elsewhere.example`]);
  const had = versionsOf(before.parts(session.content(), 'on-demand').vhds);
  const after = new Demand(shared);
  const passedOn = ask(shared, after, ['*', `${ROUTES}/a`, `${ROUTES}/elsewhere.example`], had);
  assert.deepEqual([...passedOn.subscribe.names], ['*']);
  assert.deepEqual(versionsOf(after.parts(session.content(), 'on-demand').vhds), had);
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
  const first = new Demand(shared);
  ask(shared, first, [`${ROUTES}/a`, `${ROUTES}/unknown.example`]);
  first.parts(session.content(), 'learned');
  const second = new Demand(shared);
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
  assert.deepEqual(clusters(new Demand(shared).parts(session.content(), 'on-demand').cds), []);
  await clock.advance(FORGET_MS + 1);
  assert.deepEqual(clusters(new Demand(shared).parts(session.content(), 'learned').cds), []);
  assert.deepEqual(clusters(second.parts(session.content(), 'learned').cds), both);
  session.close();
});

test('the hosts that are learned are few', () => {
  const learned = new LearnedHosts(new NameSets(new Memos()), () => 0);
  const many = Array.from({ length: 1000 }, (_, at) => `${ROUTES}/host-${at}`);
  learned.learn('small', many, 50);
  learned.learn('large', many, 100_000);
  assert.deepEqual([learned.of('small').size, learned.of('large').size], [20, 500]);
  for (let view = 0; view < 1000; view++) learned.learn(`view ${view}`, [], 1);
  assert.equal(learned.of('small').size, 0);
});

const NAMES = ['a', 'b', 'c', 'one.wild.example', 'two.wild.example'];
const step = fc.oneof(
  fc.record({ kind: fc.constant('service' as const), name: fc.constantFrom('a', 'b', 'c'), exists: fc.boolean() }),
  fc.record({
    kind: fc.constant('route' as const),
    host: fc.constantFrom('a', 'b', '*.wild.example', 'one.wild.example'),
    to: fc.constantFrom('a', 'b', 'c'),
    exists: fc.boolean(),
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
      const demand = new Demand(shared);
      for (const each of steps) {
        if (each.kind === 'ask') ask(shared, demand, [`${ROUTES}/${each.name}`]);
        else if (each.kind === 'service') {
          const key = `Service/${NAMESPACE}/${each.name}`;
          mesh.change(each.exists ? [service(NAMESPACE, each.name)] : [], each.exists ? [] : [key]);
        } else {
          const name = `r${each.host.replaceAll('*', 'star')}`;
          const http = [{ route: [{ destination: { host: each.to } }] }];
          const rule = meshResource('VirtualService', NAMESPACE, name, { hosts: [each.host], http });
          mesh.change(each.exists ? [rule] : [], each.exists ? [] : [`VirtualService/${NAMESPACE}/${name}`]);
        }
        await mesh.settled();
        const parts = demand.parts(session.content(), 'on-demand');
        const fresh = newShared();
        const again = new Demand(fresh);
        ask(fresh, again, [...demand.asked.names]);
        const expected = again.parts(session.content(), 'on-demand');
        for (const type of ['cds', 'vhds'] as const)
          assert.deepEqual(versionsOf(parts[type]), versionsOf(expected[type]), type);
        const hosts = decoded(parts.vhds);
        const answered = new Set(hosts.flatMap(({ name, aliases }) => [name, ...aliases]));
        for (const name of demand.asked.names) assert.ok(answered.has(name), `${name} is answered`);
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
