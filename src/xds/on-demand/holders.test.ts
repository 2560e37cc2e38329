/** Pushes to proxies on demand: a change reaches those that hold what changed, and no others. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import type { Bundle, ConcernedNames, Parts, ProxySession } from '../../push/index.ts';
import { collectGarbage, endpoints, inline, Mesh, meshResource, service, sidecar } from '../../push/testing/mesh.ts';
import { NO_NAMES } from '../protocol/index.ts';
import { EMPTY_REQUEST, newDemand, newShared } from '../testing/demand.ts';
import { concernedNames } from './concerned-names.ts';
import type { Demand } from './demand.ts';
import type { SharedDemand } from './shared-demand.ts';

const NAMESPACE = 'shop';
const ROUTES = '80';
const DNS = `${NAMESPACE}.svc.cluster.local`;

/** Every service changes the table of names, which goes to all proxies: a proxy that is not found would get all by it. */
const withoutNames: ConcernedNames = (type, ...bundles) => (type === 'nds' ? [] : concernedNames(type, ...bundles));

const newMesh = (canaryAbove: number, names: readonly string[], concerned: ConcernedNames = concernedNames) =>
  new Mesh(
    inline,
    names.flatMap((name, at) => [
      service(NAMESPACE, name, { clusterIP: `10.9.1.${at}` }),
      endpoints(NAMESPACE, name, '10.2.0.1'),
    ]),
    { canaryAbove, concerned },
  );

type Versions = ReadonlyMap<string, string>;
type Held = Readonly<Record<'cds' | 'eds' | 'vhds', Versions>>;

const NOTHING: Held = { cds: new Map(), eds: new Map(), vhds: new Map() };

const versionsOf = (bundles: readonly Bundle[]): Versions =>
  new Map(bundles.flatMap((bundle) => bundle.resources().map(({ name, version }) => [name, version] as const)));

/** Without the endpoints of clusters that it does not have: Envoy does not subscribe to them. */
function heldOf({ cds, eds, vhds }: Parts): Held {
  const clusters = versionsOf(cds);
  const held = new Map([...versionsOf(eds)].filter(([name]) => clusters.has(name)));
  return { cds: clusters, eds: held, vhds: versionsOf(vhds) };
}

/** A proxy that has what it was pushed. */
class Sidecar {
  readonly session: ProxySession;
  readonly #shared: SharedDemand;
  readonly #demand: Demand;
  held: Held = NOTHING;
  /** What it had when it connected. */
  reported: Held = NOTHING;
  pushes = 0;

  constructor(mesh: Mesh, shared: SharedDemand, index: number) {
    const demand = newDemand(shared);
    const node = { ...sidecar(`10.1.0.${index + 1}`, NAMESPACE), discoversVirtualHosts: true };
    const { session } = mesh.connect({ ...node, options: { configuration: 'on-demand' } }, (pushed) => {
      this.pushes++;
      this.held = heldOf(this.#parts(pushed));
      pushed.synced(pushed.version());
      return Promise.resolve('sent');
    });
    this.#shared = shared;
    this.#demand = demand;
    this.session = session;
  }

  #parts(session: ProxySession): Parts {
    const parts = this.#demand.parts(session.content(), session.onDemand);
    session.hold(this.#demand.held);
    return parts;
  }

  /** Number of names by which it is found. */
  get names(): number {
    return this.#demand.held?.reduce((sum, { size }) => sum + size, 0) ?? assert.fail();
  }

  /** Whether changes of what has this name concern it. */
  holds(name: string): boolean {
    return this.#demand.held?.some((names) => names.has(name)) === true;
  }

  get asked(): readonly string[] {
    return [...this.#demand.namesOf('vhds', NO_NAMES).names];
  }

  async begin(): Promise<void> {
    await this.session.ready;
    this.session.request(['cds']);
  }

  ask(names: readonly string[], had = NOTHING): void {
    this.reported = had.cds.size > 0 ? had : this.reported;
    request(this.#shared, this.#demand, this.session, names, had);
    this.#parts(this.session);
    this.session.request(['vhds']);
  }
}

/** The requests of a proxy that has something already. */
function request({ names }: SharedDemand, demand: Demand, session: ProxySession, asked: readonly string[], had: Held) {
  const asking = { mode: session.onDemand, workload: session.node.workload, at: 0, since: 0 };
  demand.receive('cds', { ...EMPTY_REQUEST, initialVersions: had.cds }, asking);
  demand.receive('vhds', { ...EMPTY_REQUEST, subscribe: names.of(asked), initialVersions: had.vhds }, asking);
}

async function connected(mesh: Mesh, shared: SharedDemand, count: number): Promise<Sidecar[]> {
  const proxies = Array.from({ length: count }, (_, index) => new Sidecar(mesh, shared, index));
  await Promise.all(proxies.map((proxy) => proxy.begin()));
  await mesh.settled();
  return proxies;
}

const largest = (bundles: readonly Bundle[]): Bundle => bundles.toSorted((a, b) => b.size - a.size)[0] ?? assert.fail();

/** How many pushes each proxy gets by a change. */
async function pushesOf(mesh: Mesh, proxies: readonly Sidecar[], change: () => void): Promise<readonly number[]> {
  const before = proxies.map(({ pushes }) => pushes);
  change();
  await mesh.settled();
  return proxies.map(({ pushes }, index) => pushes - (before[index] ?? 0));
}

test('a proxy that is pushed nothing does not keep what its views have had', async () => {
  const mesh = newMesh(Number.POSITIVE_INFINITY, ['a', 'b'], withoutNames);
  const proxies = await connected(mesh, newShared(), 3);
  // Views with equal content share the first one.
  change(mesh, '1s');
  await mesh.settled();
  const [ofA, ofB] = proxies;
  ofA?.ask([`${ROUTES}/a`]);
  ofB?.ask([`${ROUTES}/b`]);
  await mesh.settled();
  const seen = proxies.flatMap(({ session }) => {
    const { vhds, cds, eds } = session.content();
    return [vhds, cds, eds].map((bundles) => new WeakRef(largest(bundles)));
  });
  const pushes = await pushesOf(mesh, proxies, () => change(mesh, '2s'));
  assert.deepEqual(
    pushes.map((each) => each > 0),
    [false, true, false],
  );
  await collectGarbage();
  assert.deepEqual(
    seen.map((each) => each.deref()?.type),
    seen.map(() => undefined),
  );
});

test('a proxy is found by few names of versions that have gone', async () => {
  const mesh = newMesh(Number.POSITIVE_INFINITY, ['a'], withoutNames);
  const [proxy = assert.fail()] = await connected(mesh, newShared(), 1);
  proxy.ask([`${ROUTES}/a`]);
  for (let version = 1; version <= 100; version++) {
    const subset = `v${version}`;
    mesh.change([
      meshResource('DestinationRule', NAMESPACE, 'a', { host: 'a', subsets: [{ name: subset, labels: { app: 'a' } }] }),
      meshResource('VirtualService', NAMESPACE, 'a', {
        hosts: ['a'],
        http: [{ route: [{ destination: { host: 'a', subset } }] }],
      }),
    ]);
    await mesh.settled();
    assert.ok(proxy.held.cds.has(`outbound|80|${subset}|a.${DNS}`));
    assert.ok(proxy.held.eds.has(`outbound|80|${subset}|a.${DNS}`));
  }
  assert.ok(proxy.names < 60, `${proxy.names} names`);
});

/** Changes everything of one service. */
function change(mesh: Mesh, time: string): void {
  const rule = { hosts: ['b'], http: [{ timeout: time, route: [{ destination: { host: 'b' } }] }] };
  const settings = { host: 'b', trafficPolicy: { connectionPool: { tcp: { connectTimeout: time } } } };
  mesh.change([
    meshResource('VirtualService', NAMESPACE, 'b', rule),
    meshResource('DestinationRule', NAMESPACE, 'b', settings),
    endpoints(NAMESPACE, 'b', `10.3.0.${time.at(0)}`),
  ]);
}

test('a change is pushed to the proxies that hold what changed', async () => {
  const mesh = newMesh(Number.POSITIVE_INFINITY, ['a', 'b'], withoutNames);
  const proxies = await connected(mesh, newShared(), 4);
  const [ofA, ofB, ofBoth] = proxies;
  ofA?.ask([`${ROUTES}/a`]);
  ofB?.ask([`${ROUTES}/b.${DNS}`, `${ROUTES}/c`, `${ROUTES}/one.wild.example`]);
  ofBoth?.ask([`${ROUTES}/a`, `${ROUTES}/b`]);
  await mesh.settled();
  const pushes = (change: () => void) => pushesOf(mesh, proxies, change);
  assert.deepEqual(await pushes(() => mesh.change([endpoints(NAMESPACE, 'a', '10.2.0.2')])), [1, 0, 1, 0]);
  assert.deepEqual(await pushes(() => mesh.change([endpoints(NAMESPACE, 'b', '10.2.0.2')])), [0, 1, 1, 0]);
  const rule = { hosts: ['b'], http: [{ timeout: '3s', route: [{ destination: { host: 'b' } }] }] };
  const route = meshResource('VirtualService', NAMESPACE, 'b', rule);
  assert.deepEqual(await pushes(() => mesh.change([route])), [0, 1, 1, 0]);
  const settings = { host: 'a', trafficPolicy: { connectionPool: { tcp: { maxConnections: 7 } } } };
  const policy = meshResource('DestinationRule', NAMESPACE, 'a', settings);
  assert.deepEqual(await pushes(() => mesh.change([policy])), [1, 0, 1, 0]);
  // Asked for before it existed, under a short name.
  assert.deepEqual(await pushes(() => mesh.change([service(NAMESPACE, 'c', { clusterIP: '10.9.0.3' })])), [0, 1, 0, 0]);
  assert.equal(ofB?.held.cds.has(`outbound|80||c.${DNS}`), true);
  // Of a wildcard, those that have asked for a host that it matches.
  const wild = { hosts: ['*.wild.example'], http: [{ route: [{ destination: { host: 'b' } }] }] };
  const anyHost = meshResource('VirtualService', NAMESPACE, 'wild', wild);
  assert.deepEqual(await pushes(() => mesh.change([anyHost])), [0, 1, 0, 0]);
  assert.deepEqual(await pushes(() => mesh.change([], [`Service/${NAMESPACE}/a`])), [1, 0, 1, 0]);
  assert.equal(ofA?.held.cds.has(`outbound|80||a.${DNS}`), false);
  assert.ok(mesh.allSettled());
});

test('a proxy whose view has no cluster that it could ask for is found when there is one', async () => {
  const ports = [{ number: 80, name: 'http', protocol: 'HTTP' }];
  const outside = { hosts: ['d.example'], location: 'MESH_EXTERNAL', resolution: 'DNS', ports };
  const toLate = { hosts: ['d.example'], http: [{ route: [{ destination: { host: 'late' } }] }] };
  const mesh = new Mesh(
    inline,
    [meshResource('ServiceEntry', NAMESPACE, 'd', outside), meshResource('VirtualService', NAMESPACE, 'd', toLate)],
    { concerned: concernedNames },
  );
  const shared = newShared();
  const [proxy] = await connected(mesh, shared, 1);
  assert.ok(proxy);
  proxy.ask([`${ROUTES}/d.example`]);
  await mesh.settled();
  assert.ok(proxy.holds(`outbound|80||late.${DNS}`));
});

test('a proxy that leaves is not found any more, and one that takes everything is found always', async () => {
  const mesh = newMesh(Number.POSITIVE_INFINITY, ['a', 'b']);
  const proxies = await connected(mesh, newShared(), 3);
  for (const proxy of proxies) proxy.ask([`${ROUTES}/a`]);
  await mesh.settled();
  proxies[0]?.session.close();
  proxies[1]?.session.hold(undefined);
  const change = () => mesh.change([endpoints(NAMESPACE, 'b', '10.2.0.2')]);
  assert.deepEqual(await pushesOf(mesh, proxies, change), [0, 1, 0]);
});

const SERVICES = ['a', 'b', 'c'];
const NAMES = [
  ...SERVICES,
  `a.${NAMESPACE}`,
  `b.${DNS}:80`,
  'ready',
  'x.example',
  'x-part.example',
  'one.wild.example',
];
const PROXIES = 3;
const proxy = fc.nat({ max: PROXIES - 1 });
const step = fc.oneof(
  fc.record({ kind: fc.constant('ask' as const), proxy, name: fc.constantFrom(...NAMES) }),
  fc.record({
    kind: fc.constant('endpoints' as const),
    name: fc.constantFrom(...SERVICES),
    address: fc.integer({ min: 1, max: 3 }),
  }),
  fc.record({ kind: fc.constant('service' as const), name: fc.constantFrom(...SERVICES), exists: fc.boolean() }),
  fc.record({
    kind: fc.constant('route' as const),
    host: fc.constantFrom('a', 'b', '*.wild.example', 'one.wild.example', '*-part.example'),
    to: fc.constantFrom(...SERVICES),
    exists: fc.boolean(),
  }),
  fc.record({ kind: fc.constant('reconnect' as const), proxy }),
  fc.record({ kind: fc.constant('restart' as const) }),
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

function edit(mesh: Mesh, each: Step): void {
  if (each.kind === 'endpoints') mesh.change([endpoints(NAMESPACE, each.name, `10.2.0.${each.address}`)]);
  if (each.kind === 'service') {
    const key = `Service/${NAMESPACE}/${each.name}`;
    mesh.change(each.exists ? [service(NAMESPACE, each.name)] : [], each.exists ? [] : [key]);
  }
  if (each.kind === 'route') {
    const name = `r${each.host.replaceAll('*', 'star')}`;
    const http = [{ route: [{ destination: { host: each.to } }] }];
    const rule = meshResource('VirtualService', NAMESPACE, name, { hosts: [each.host], http });
    mesh.change(each.exists ? [rule] : [], each.exists ? [] : [`VirtualService/${NAMESPACE}/${name}`]);
  }
}

/** The proxy on a new stream, where it reports what it had. */
async function again(mesh: Mesh, shared: SharedDemand, index: number, before: Sidecar): Promise<Sidecar> {
  const next = new Sidecar(mesh, shared, index);
  await next.begin();
  next.ask(before.asked, before.held);
  return next;
}

test('property: after asks, edits, reconnects and restarts, proxies were pushed what fresh ones would get', async () => {
  const canaryAbove = fc.constantFrom(1, Number.POSITIVE_INFINITY);
  const steps = fc.array(step, { minLength: 1, maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(canaryAbove, steps, async (above, all) => {
      const mesh = newMesh(above, ['a', 'b'], withoutNames);
      let shared = newShared();
      let proxies = await connected(mesh, shared, PROXIES);
      for (const each of all) {
        if (each.kind === 'ask') proxies[each.proxy]?.ask([`${ROUTES}/${each.name}`]);
        else if (each.kind === 'restart' || each.kind === 'reconnect') {
          if (each.kind === 'restart') shared = newShared();
          const isLeft = (index: number) => each.kind === 'restart' || index === each.proxy;
          for (const [index, { session }] of proxies.entries()) if (isLeft(index)) session.close();
          proxies = await Promise.all(
            proxies.map((one, index) => (isLeft(index) ? again(mesh, shared, index, one) : one)),
          );
        } else edit(mesh, each);
        await mesh.settled();
        mesh.retry();
        await mesh.settled();
        for (const one of proxies) assert.deepEqual(one.held, fresh(one), JSON.stringify(each));
      }
      assert.ok(mesh.allSettled());
      for (const { session } of proxies) session.close();
    }),
    { numRuns: 40 },
  );
});

/** What a new proxy would get that has what this one had, and asks for the same names. */
function fresh({ session, asked, reported }: Sidecar): Held {
  const shared = newShared();
  const demand = newDemand(shared);
  request(shared, demand, session, asked, reported);
  return heldOf(demand.parts(session.content(), session.onDemand));
}
