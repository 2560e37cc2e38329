/** The clusters of views of proxies on demand in a large mesh are generated when a proxy needs them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Memos } from '../../../core/memo.ts';
import { fakeClock } from '../../../core/testing/fake-clock.ts';
import * as fc from '../../../core/testing/properties.ts';
import { XDS, type XdsType } from '../../../core/xds-types.ts';
import type { Snapshot } from '../../../model/index.ts';
import type { Bundle, EncodedResource, LaterClusters, Parts, ProxySession } from '../../../push/index.ts';
import type { GenerateJob } from '../../../push/protocol.ts';
import { changing } from '../../../push/testing/faults.ts';
import { endpoints, inline, Mesh, meshResource, parse, service, sidecar, turns } from '../../../push/testing/mesh.ts';
import { meshConfig } from '../../../resources/schema/mesh-config.ts';
import { concernedNames, Demand, leadsTo, SharedDemand } from '../../on-demand/index.ts';
import { NameSets, NO_NAMES } from '../../protocol/index.ts';
import { demandedParts, neededFor } from './demanded-parts.ts';

const NAMESPACE = 'shop';
const DNS = `${NAMESPACE}.svc.cluster.local`;
const COUNT = 12;
const HOSTS = Array.from({ length: COUNT }, (_, index) => `s${index}`);
const LAST = HOSTS.at(-1) ?? '';
const ASKED = { mode: 'on-demand' as const, workload: 'pod', at: 0, since: 0 };

const RESOURCES = [
  ...HOSTS.flatMap((name, at) => [
    service(NAMESPACE, name, { clusterIP: `10.9.1.${at}` }),
    endpoints(NAMESPACE, name, `10.2.0.${at + 1}`),
  ]),
  // Its endpoints are resolved by Envoy, which does not wait for it when it asks for it.
  meshResource('ServiceEntry', NAMESPACE, 'outside', {
    hosts: ['outside.example'],
    location: 'MESH_EXTERNAL',
    resolution: 'DNS',
    ports: [{ number: 80, name: 'http', protocol: 'HTTP' }],
  }),
];

/** @param above with more units, they are generated when proxies need them */
function newMesh(above: number, generator: ConstructorParameters<typeof Mesh>[0] = inline): Mesh {
  const later = { above };
  return new Mesh(generator, RESOURCES, { concerned: concernedNames, leadsTo, laterClusters: later, canaryAbove: 0 });
}

function newShared(): SharedDemand {
  const memos = new Memos();
  return new SharedDemand(new NameSets(memos), memos, fakeClock());
}

const route = (host: string, to: string) =>
  meshResource('VirtualService', NAMESPACE, `of-${host}`, {
    hosts: [host],
    http: [{ route: [{ destination: { host: to } }] }],
  });

/** A proxy whose stream handles each request when what it needs is generated. */
class Sidecar {
  readonly session: ProxySession;
  readonly #shared: SharedDemand;
  readonly #demand: Demand;
  readonly lacking: string[] = [];
  #handled = Promise.resolve();

  constructor(mesh: Mesh, shared: SharedDemand, index: number) {
    this.#shared = shared;
    this.#demand = new Demand(shared, () => {});
    const node = { ...sidecar(`10.1.0.${index + 1}`, NAMESPACE), discoversVirtualHosts: true };
    this.session = mesh.connect({ ...node, options: { configuration: 'on-demand' } }, (session) => {
      this.check();
      session.synced(session.version());
      return Promise.resolve('sent');
    }).session;
  }

  get parts(): Parts {
    return demandedParts(this.session, this.#demand);
  }

  get later(): LaterClusters | undefined {
    return this.session.laterClusters;
  }

  /** @param had versions of what it has */
  request(type: XdsType, asked: readonly string[] = [], had: ReadonlyMap<string, string> = new Map()): Promise<void> {
    const { names } = this.#shared;
    const common = { responseNonce: '', nack: undefined, node: undefined, unsubscribe: NO_NAMES };
    const subscribe = names.of(asked.map((host) => `80/${host}`));
    const request = { ...common, typeUrl: XDS[type].url, subscribe, initialVersions: had };
    this.#handled = this.#handled.then(async () => {
      await neededFor(this.session, this.#demand, request);
      this.#demand.receive(type, request, ASKED);
      this.check();
      this.session.request([type]);
    });
    return this.#handled;
  }

  /** What a request for these hosts waits for. */
  needs(hosts: readonly string[]): Promise<void> | undefined {
    const subscribe = this.#shared.names.of(hosts.map((host) => `80/${host}.${DNS}`));
    const common = { responseNonce: '', nack: undefined, node: undefined, unsubscribe: NO_NAMES };
    const request = { ...common, typeUrl: XDS.vhds.url, subscribe, initialVersions: new Map<string, string>() };
    return neededFor(this.session, this.#demand, request);
  }

  async begin(): Promise<void> {
    await this.session.ready;
    for (const type of ['cds', 'lds', 'rds'] as const) await this.request(type);
  }

  /** Notes the clusters that what it has leads to, and that are generated later. */
  check(): void {
    const { later } = this;
    if (later === undefined) return;
    const { lds, rds, vhds } = this.parts;
    const led = this.#shared.clustersOf([...lds, ...rds, ...vhds]).names;
    this.lacking.push(...[...led].filter((name) => later.has(name)));
  }

  /** Names and versions of what it has, without the endpoints of clusters that it had before. */
  get held(): Readonly<Record<'cds' | 'eds' | 'vhds', readonly string[]>> {
    const { cds, eds, vhds } = this.parts;
    const has = (cluster: string) => cds.some((bundle) => bundle.get(cluster) !== undefined);
    const of = (bundles: readonly Bundle[]) => bundles.flatMap((bundle) => bundle.resources());
    const texts = (resources: readonly EncodedResource[]) =>
      resources.map(({ name, version }) => `${name} ${version}`).sort();
    return { cds: texts(of(cds)), eds: texts(of(eds).filter(({ name }) => has(name))), vhds: texts(of(vhds)) };
  }
}

async function started(mesh: Mesh, shared: SharedDemand, count: number): Promise<readonly Sidecar[]> {
  const proxies = Array.from({ length: count }, (_, index) => new Sidecar(mesh, shared, index));
  await Promise.all(proxies.map((proxy) => proxy.begin()));
  return proxies;
}

test('a proxy begins with the clusters that it cannot ask for, and gets others when it asks', async () => {
  const mesh = newMesh(1);
  const [proxy] = await started(mesh, newShared(), 3);
  assert.ok(proxy);
  assert.ok(proxy.later?.has(`outbound|80||${HOSTS[COUNT - 1]}.${DNS}`));
  assert.ok(proxy.held.cds.some((cluster) => cluster.startsWith('outbound|80||outside.example ')));
  await proxy.request('vhds', [`${HOSTS[COUNT - 1]}.${DNS}`, 'unknown']);
  assert.ok(proxy.later !== undefined, 'it did not wait for all others');
  const has = (all: readonly string[]) => all.some((each) => each.includes(`${HOSTS[COUNT - 1]}.${DNS}`));
  assert.deepEqual([has(proxy.held.vhds), has(proxy.held.cds), has(proxy.held.eds)], [true, true, true]);
  await mesh.settled();
  assert.ok(proxy.later.has(`outbound|80||s9.${DNS}`), 'clusters that nobody asks for are not generated');
  assert.deepEqual(mesh.trials, [], 'clusters that nobody has yet are not tried');
});

test('the job for everything leaves out what no proxy needs yet, by whatever name it says so', async () => {
  const taken: unknown[] = [];
  const jobs: unknown[] = [];
  const noted = (snapshot: Snapshot) => {
    const generator = inline(snapshot);
    const submit = generator.submit.bind(generator);
    generator.submit = async (source, options) => {
      const takeJob = (): GenerateJob => {
        const job = source.takeJob();
        taken.push(job.later);
        return job;
      };
      const made = await submit({ key: source.key, lanes: () => source.lanes(), takeJob }, options);
      const later = taken.pop();
      if (later !== undefined)
        jobs.push({ later, units: made.answer.units.filter(({ type }) => type === 'cds').length });
      return made;
    };
    return generator;
  };
  const mesh = newMesh(1, noted);
  const [proxy] = await started(mesh, newShared(), 1);
  await proxy?.request('vhds', [`s9.${DNS}`]);
  const settings = meshConfig.parse({ connectTimeout: '3s' });
  mesh.engine.publish(mesh.model.apply({ changes: [], eventTime: performance.now(), mesh: settings }));
  await mesh.settled();
  assert.deepEqual(jobs[0], { later: { allBut: [] }, units: 2 });
  const later = HOSTS.filter((name) => name !== 's9').map((name) => `${name}.${DNS}`);
  assert.deepEqual(jobs[1], { later: later.sort(), units: 3 });
});

test('a change that leads a proxy to clusters that are generated later comes with these', async () => {
  const mesh = newMesh(1);
  const [proxy] = await started(mesh, newShared(), 1);
  const [asked, other] = [`s9.${DNS}`, `s11.${DNS}`];
  assert.ok(proxy);
  await proxy.request('vhds', [asked]);
  assert.ok(proxy.later?.has(`outbound|80||${other}`));
  mesh.change([route('s9', 's11')]);
  await mesh.settled();
  assert.ok(proxy.held.eds.some((name) => name.startsWith(`outbound|80||${other} `)));
  assert.deepEqual(proxy.lacking, []);
  assert.ok(proxy.later?.has(`outbound|80||s10.${DNS}`), 'others are not generated');
});

test('a proxy that connects again waits for the clusters that it had, and for no others', async () => {
  const mesh = newMesh(1);
  const shared = newShared();
  const [fresh] = await started(mesh, shared, 1);
  assert.ok(fresh?.later !== undefined);
  const again = new Sidecar(mesh, shared, 1);
  await again.session.ready;
  const [had, led] = [`outbound|80||s9.${DNS}`, `outbound|80||s10.${DNS}`];
  await again.request('cds', [], new Map([[had, 'v']]));
  assert.ok(again.held.cds.some((name) => name.startsWith(`${had} `)));
  assert.equal(again.later?.has(led), true);
  await again.request('vhds', [], new Map([[`80/s10.${DNS}:80`, 'v']]));
  assert.ok(again.held.vhds.some((name) => name.startsWith(`80/s10.${DNS}:80 `)));
  assert.ok(again.held.eds.some((name) => name.startsWith(`${led} `)));
  assert.equal(again.later?.has(`outbound|80||${LAST}.${DNS}`), true);
});

test('a proxy that has not said which clusters it has waits for all', async () => {
  const mesh = newMesh(1);
  const shared = newShared();
  await started(mesh, shared, 1);
  const again = new Sidecar(mesh, shared, 1);
  await again.session.ready;
  // Envoy does not ask for clusters while one of them waits for its names.
  await again.request('vhds', [], new Map([[`80/s3.${DNS}:80`, 'v']]));
  assert.equal(again.later, undefined);
});

test('a proxy that had more than 1,024 clusters waits for all', async () => {
  const mesh = newMesh(1);
  const shared = newShared();
  await started(mesh, shared, 1);
  const again = new Sidecar(mesh, shared, 1);
  await again.session.ready;
  const names = Array.from({ length: 1025 }, (_, index) => `outbound|80||h${index}.${DNS}`);
  await again.request('cds', [], new Map(names.map((name) => [name, 'v'])));
  assert.equal(again.later, undefined);
});

test('a proxy that changes from everything to on demand keeps what it has until all is generated', async () => {
  const mesh = newMesh(1);
  const shared = newShared();
  await started(mesh, shared, 1);
  const node = { ...sidecar('10.1.0.9', NAMESPACE), discoversVirtualHosts: true };
  const seen: number[] = [];
  const { session } = mesh.connect(node, (each) => {
    seen.push(each.parts('cds').reduce((sum, { size }) => sum + size, 0));
    return Promise.resolve('sent');
  });
  await session.ready;
  const before = session.parts('cds').reduce((sum, { size }) => sum + size, 0);
  const labels = { 'sidecar.mesh.io/configuration': 'on-demand' };
  mesh.change([parse({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: NAMESPACE, labels } })]);
  await mesh.settled();
  assert.equal(session.onDemand, 'on-demand');
  assert.ok(seen.every((size) => size >= before));
});

test('a request fails with the job that it waits for, as do others until that is tried again', async () => {
  let breaks = false;
  const broken = changing((job) => {
    if (breaks) throw new Error('the worker crashed');
    return job;
  });
  const mesh = newMesh(1, broken);
  const [proxy] = await started(mesh, newShared(), 1);
  assert.ok(proxy?.later !== undefined);
  breaks = true;
  // A stream that looks whether a request has to wait does not wait for the promise.
  void proxy.needs([LAST]);
  await assert.rejects(async () => proxy.needs([LAST]), /crashed/);
  await assert.rejects(async () => proxy.needs([HOSTS[5] ?? '']), /crashed/);
  breaks = false;
  mesh.retry();
  await proxy.request('vhds', [`${LAST}.${DNS}`]);
  assert.ok(proxy.held.eds.some((name) => name.startsWith(`outbound|80||${LAST}.${DNS} `)));
  await mesh.settled();
  assert.ok(mesh.allSettled());
});

const proxyIndex = fc.nat({ max: 2 });
/** Generated late. */
const LATE = HOSTS.slice(-3);
const step = fc.oneof(
  fc.record({ kind: fc.constant('ask' as const), proxy: proxyIndex, host: fc.constantFrom(...LATE, 'unknown') }),
  fc.record({ kind: fc.constant('turns' as const), count: fc.nat({ max: 4 }) }),
  fc.record({ kind: fc.constant('route' as const), host: fc.constantFrom(...LATE), to: fc.constantFrom(...LATE) }),
  fc.record({ kind: fc.constant('endpoints' as const), host: fc.constantFrom(...HOSTS), at: fc.nat({ max: 9 }) }),
  fc.record({ kind: fc.constant('gone' as const), host: fc.constantFrom(...HOSTS) }),
);

test('property: whenever proxies ask and the mesh changes, they end with what they have in a small mesh', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 10 }), async (steps) => {
      const [lazy, eager] = [newMesh(1), newMesh(1000)];
      const all = [await started(lazy, newShared(), 3), await started(eager, newShared(), 3)] as const;
      for (const each of steps) {
        if (each.kind === 'turns') await turns(each.count);
        for (const proxies of each.kind === 'ask' ? all : [])
          void proxies[each.kind === 'ask' ? each.proxy : 0]?.request('vhds', [each.kind === 'ask' ? each.host : '']);
        for (const mesh of [lazy, eager]) {
          if (each.kind === 'route') mesh.change([route(each.host, each.to)]);
          if (each.kind === 'endpoints') mesh.change([endpoints(NAMESPACE, each.host, `10.3.0.${each.at}`)]);
          if (each.kind === 'gone') mesh.change([], [`Service/${NAMESPACE}/${each.host}`]);
        }
      }
      for (const [index, mesh] of [lazy, eager].entries()) {
        await mesh.settled();
        await Promise.all((all[index] ?? []).map((proxy) => proxy.request('vhds')));
        mesh.retry();
        await mesh.settled();
        assert.ok(mesh.allSettled());
      }
      assert.deepEqual(
        all[0].map(({ held }) => held),
        all[1].map(({ held }) => held),
      );
      for (const { lacking } of all[0]) assert.deepEqual(lacking, []);
      for (const { session } of all.flat()) session.close();
    }),
    { numRuns: 12 },
  );
});

test('a host that gets another virtual host is led to clusters of the view', async () => {
  const mesh = newMesh(1);
  mesh.change([service(NAMESPACE, 's7', { clusterIP: '10.9.1.3' })]);
  const [proxy] = await started(mesh, newShared(), 1);
  assert.ok(proxy);
  await proxy.request('vhds', ['10.9.1.3']);
  await mesh.settled();
  const owns = (name: string): boolean => proxy.held.vhds.some((host) => host.startsWith(`80/${name}.`));
  const [owner, other] = owns('s3') ? ['s3', 's7'] : ['s7', 's3'];
  mesh.change([], [`Service/${NAMESPACE}/${owner}`]);
  await mesh.settled();
  assert.ok(owns(other));
  assert.ok(proxy.held.cds.some((cluster) => cluster.startsWith(`outbound|80||${other}.${DNS} `)));
  assert.deepEqual(proxy.lacking, []);
});

test('inbound listeners lead to clusters that the proxy has', async () => {
  const mesh = newMesh(1);
  const settings = meshConfig.parse({
    extensionProviders: [{ name: 'authorizer', envoyExtAuthzHttp: { service: `s7.${DNS}`, port: 80 } }],
  });
  mesh.engine.publish(mesh.model.apply({ changes: [], eventTime: performance.now(), mesh: settings }));
  mesh.change([endpoints(NAMESPACE, 's0', '10.1.0.1')]);
  const [proxy] = await started(mesh, newShared(), 1);
  assert.ok(proxy);
  const has = (): boolean => proxy.held.cds.some((cluster) => cluster.startsWith(`outbound|80||s7.${DNS} `));
  assert.equal(has(), false);
  const policy = { action: 'CUSTOM', provider: { name: 'authorizer' }, rules: [{}] };
  mesh.change([meshResource('AuthorizationPolicy', NAMESPACE, 'ask', policy)]);
  await mesh.settled();
  proxy.check();
  assert.ok(has());
  assert.deepEqual(proxy.lacking, []);
});

test('listeners with new policies do not wait for clusters to which an EnvoyFilter leads inbound requests', async () => {
  const policy = { action: 'DENY', rules: [{ to: [{ operation: { paths: ['/secret'] } }] }] };
  // A cluster of nobody, and one that will never exist.
  for (const cluster of [`outbound|80||s7.${DNS}`, `outbound|81||s7.${DNS}`]) {
    const mesh = newMesh(1);
    mesh.change([endpoints(NAMESPACE, 's0', '10.1.0.1')]);
    const [proxy] = await started(mesh, newShared(), 1);
    assert.ok(proxy);
    assert.equal(proxy.later?.has(cluster), true);
    const patch = { operation: 'MERGE', value: { route: { cluster } } };
    const configPatches = [{ applyTo: 'HTTP_ROUTE', match: { context: 'SIDECAR_INBOUND' }, patch }];
    const filter = meshResource('EnvoyFilter', NAMESPACE, 'led', { configPatches });
    mesh.change([filter, meshResource('AuthorizationPolicy', NAMESPACE, 'deny', policy)]);
    await mesh.settled();
    proxy.check();
    const listeners = proxy.parts.lds.flatMap((bundle) => bundle.resources());
    assert.ok(listeners.some(({ fragment }) => Buffer.from(fragment).includes('/secret')));
    const isHeld = proxy.held.cds.some((name) => name.startsWith(`${cluster} `));
    assert.equal(isHeld, cluster.startsWith('outbound|80|'));
  }
});

test('virtual hosts that are generated after clusters, as Envoy requests them, lead to none', async () => {
  const mesh = newMesh(1);
  const node = { ...sidecar('10.1.0.1', NAMESPACE), discoversVirtualHosts: true };
  const onDemand = { ...node, options: { configuration: 'on-demand' as const } };
  const sink = { push: () => Promise.resolve('sent' as const) };
  const session = mesh.engine.connect(onDemand, sink, 'Envoy', ['cds']);
  await session.ready;
  for (const type of ['lds', 'rds', 'vhds'] as const) {
    session.request([type]);
    await session.need(type);
  }
  assert.ok(session.content().vhds.some((bundle) => bundle.size > 0));
  await mesh.settled();
  for (const host of HOSTS) assert.equal(session.laterClusters?.has(`outbound|80||${host}.${DNS}`), true, host);
});
