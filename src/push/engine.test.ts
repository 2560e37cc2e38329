import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { defaultDiscoverySettings } from '../cli/index.ts';
import type { ProxyNode } from '../core/proxy.ts';
import { modelSettings } from '../discovery/model-settings.ts';
import { XDS_TYPES, type XdsType } from '../generate/types.ts';
import { applyChanges, createModel } from '../model/index.ts';
import type { Snapshot } from '../model/types.ts';
import { workerUrl } from '../paths.ts';
import { parseResource } from '../resources/index.ts';
import { defaultMeshConfig, defaultMeshNetworks } from '../resources/mesh-config.ts';
import { type AnyResource, keyOf, type ResourceChange } from '../resources/types.ts';
import { Engine } from './engine.ts';
import { type Generator, InlineGenerator, PoolGenerator } from './generator.ts';
import type { PendingPush, ProxySession } from './types.ts';

function parse(document: unknown): AnyResource {
  const parsed = parseResource(document, { source: 'test' }, () => undefined);
  assert.ok('resource' in parsed, JSON.stringify(parsed));
  return parsed.resource;
}

function service(namespace: string, name: string, extra: object = {}): AnyResource {
  const spec = { clusterIP: '10.9.0.1', ports: [{ name: 'http', port: 80, targetPort: 8080 }], ...extra };
  return parse({ apiVersion: 'v1', kind: 'Service', metadata: { name, namespace }, spec });
}

function endpoints(namespace: string, name: string, ...ips: string[]): AnyResource {
  const subsets = [{ addresses: ips.map((ip) => ({ ip })), ports: [{ name: 'http', port: 8080 }] }];
  return parse({ apiVersion: 'v1', kind: 'Endpoints', metadata: { name, namespace }, subsets });
}

function virtualService(namespace: string, name: string, timeout: string): AnyResource {
  const spec = { hosts: [name], exportTo: ['.'], http: [{ route: [{ destination: { host: name } }], timeout }] };
  return parse({
    apiVersion: 'networking.mesh.io/v1alpha3',
    kind: 'VirtualService',
    metadata: { name, namespace },
    spec,
  });
}

function sidecar(address: string, namespace: string): ProxyNode {
  return {
    id: `sidecar~${address}~pod.${namespace}~${namespace}.svc.cluster.local`,
    type: 'sidecar',
    addresses: [address],
    workload: `pod.${namespace}`,
    namespace,
    dnsDomain: `${namespace}.svc.cluster.local`,
    labels: {},
    interception: 'REDIRECT',
    clusterId: 'Orchestrator',
    network: '',
    serviceAccount: '',
    locality: '',
    extensions: undefined,
    version: '1.40.0',
    meshVersion: '',
  };
}

/** The whole engine on real snapshots, with sinks that note what they are told. */
class Mesh {
  snapshot: Snapshot;
  readonly engine: Engine;
  readonly generator: Generator;
  readonly converged: number[] = [];
  readonly failures: string[] = [];
  readonly #resources = new Map<string, AnyResource>();

  constructor(makeGenerator: (snapshot: Snapshot) => Generator, resources: readonly AnyResource[] = []) {
    const mesh = defaultMeshConfig();
    const empty = createModel(modelSettings(defaultDiscoverySettings(), mesh), mesh, defaultMeshNetworks());
    this.snapshot = applyChanges(empty, { changes: this.#changes(resources) }).snapshot;
    this.generator = makeGenerator(this.snapshot);
    this.engine = new Engine({
      snapshot: this.snapshot,
      generator: this.generator,
      throttle: 10,
      now: () => performance.now(),
      observer: {
        triggered: () => {},
        converged: (milliseconds) => this.converged.push(milliseconds),
        queueWaited: () => {},
        stage: () => {},
        failed: (message) => this.failures.push(message),
      },
    });
  }

  #changes(resources: readonly AnyResource[], deletes: readonly string[] = []): ResourceChange[] {
    const changes: ResourceChange[] = [];
    for (const after of resources) {
      const key = keyOf(after);
      changes.push({ key, before: this.#resources.get(key), after });
      this.#resources.set(key, after);
    }
    for (const key of deletes) {
      changes.push({ key, before: this.#resources.get(key), after: undefined });
      this.#resources.delete(key);
    }
    return changes;
  }

  change(resources: readonly AnyResource[], deletes: readonly string[] = []): void {
    const taken = this.#changes(resources, deletes);
    const { snapshot, changes } = applyChanges(this.snapshot, { changes: taken });
    this.snapshot = snapshot;
    const since = performance.now();
    this.engine.publish({ snapshot, changes, resources: taken, since, reasons: new Set(['config']) });
  }

  /** A proxy that acknowledges all it is told. */
  connect(node: ProxyNode): { session: ProxySession; pushes: PendingPush[] } {
    const pushes: PendingPush[] = [];
    const session: ProxySession = this.engine.connect(node, {
      push: (pending) => {
        pushes.push({ ...pending, types: new Set(pending.types) });
        session.synced(session.version());
        return Promise.resolve('sent');
      },
    });
    return { session, pushes };
  }

  /** Waits until nothing is generated or queued any more. */
  async settled(): Promise<void> {
    for (let turns = 0; turns < 2000; turns++) {
      await new Promise((resolve) => setTimeout(resolve, 2));
      const busy = [...this.engine.views()].some((view) => view.sessions.size > 0 && (view.inFlight || view.isDirty));
      const { queued, underWay } = this.engine.stats();
      if (!busy && queued === 0 && underWay === 0) return;
    }
    assert.fail('the engine does not come to rest');
  }
}

function content(session: ProxySession): Record<XdsType, [string, string][]> {
  const of = (type: XdsType) =>
    session
      .parts(type)
      .flatMap((part) => part.resources().map(({ name, version }): [string, string] => [name, version]));
  return { cds: of('cds'), eds: of('eds'), lds: of('lds'), rds: of('rds') };
}

const inline = (snapshot: Snapshot) => new InlineGenerator(snapshot);
const pools: PoolGenerator[] = [];
function pooled(threads: number, crashes: unknown[] = []) {
  return (snapshot: Snapshot) => {
    const workerFile = fileURLToPath(workerUrl('generate'));
    const pool = new PoolGenerator({ threads, workerFile, snapshot, onCrash: (error) => crashes.push(error) });
    pools.push(pool);
    return pool;
  };
}
after(() => Promise.all(pools.map((pool) => pool.close())));

const SHOP = [service('shop', 'web'), endpoints('shop', 'web', '10.0.0.1', '10.0.0.2'), service('other', 'db')];

describe('engine', () => {
  it('gives proxies of one namespace the same bundles, generated once', async () => {
    const mesh = new Mesh(inline, SHOP);
    const one = mesh.connect(sidecar('10.5.0.1', 'client'));
    const two = mesh.connect(sidecar('10.5.0.2', 'client'));
    await Promise.all([one.session.ready, two.session.ready]);
    for (const type of XDS_TYPES) assert.equal(one.session.parts(type)[0], two.session.parts(type)[0]);
  });

  it('sends an endpoint change as EDS alone, without generating anything', async () => {
    const mesh = new Mesh(inline, SHOP);
    const { session, pushes } = mesh.connect(sidecar('10.5.0.1', 'client'));
    await session.ready;
    await mesh.settled();
    const before = content(session);
    pushes.length = 0;
    mesh.change([endpoints('shop', 'web', '10.0.0.1', '10.0.0.3')]);
    await mesh.settled();
    assert.deepEqual(
      pushes.map(({ types }) => [...types]),
      [['eds']],
    );
    const now = content(session);
    assert.notDeepEqual(now.eds, before.eds);
    assert.deepEqual({ ...now, eds: before.eds }, before);
  });

  it('pushes nothing to proxies that a change does not concern', async () => {
    const mesh = new Mesh(inline, SHOP);
    const inside = mesh.connect(sidecar('10.5.0.1', 'shop'));
    const outside = mesh.connect(sidecar('10.5.0.2', 'client'));
    await Promise.all([inside.session.ready, outside.session.ready]);
    await mesh.settled();
    inside.pushes.length = 0;
    outside.pushes.length = 0;
    mesh.change([virtualService('shop', 'web', '3s')]);
    await mesh.settled();
    assert.deepEqual(
      inside.pushes.map(({ types }) => [...types]),
      [['rds']],
    );
    assert.deepEqual(outside.pushes, []);
  });

  it('moves a proxy to its new inbound part when it becomes part of a service', async () => {
    const mesh = new Mesh(inline, SHOP);
    const { session } = mesh.connect(sidecar('10.0.0.9', 'shop'));
    await session.ready;
    assert.ok(!content(session).cds.some(([name]) => name === 'inbound|8080||'));
    mesh.change([endpoints('shop', 'web', '10.0.0.9')]);
    await mesh.settled();
    assert.ok(content(session).cds.some(([name]) => name === 'inbound|8080||'));
  });

  it('takes a service away with everything of it', async () => {
    const mesh = new Mesh(inline, SHOP);
    const { session } = mesh.connect(sidecar('10.5.0.1', 'client'));
    await session.ready;
    mesh.change([], ['Service/shop/web', 'Endpoints/shop/web', 'Service/other/db']);
    await mesh.settled();
    const now = content(session);
    assert.ok(!now.cds.some(([name]) => name.includes('web')));
    assert.deepEqual(now.eds, []);
    assert.deepEqual(now.rds, []);
  });

  it('observes convergence once per change and proxy', async () => {
    const mesh = new Mesh(inline, SHOP);
    const { session } = mesh.connect(sidecar('10.5.0.1', 'shop'));
    await session.ready;
    await mesh.settled();
    mesh.converged.length = 0;
    mesh.change([virtualService('shop', 'web', '3s')]);
    await mesh.settled();
    assert.equal(mesh.converged.length, 1);
  });

  it('comes to the same bytes with no worker, one and two, after any of these changes', async () => {
    const meshes = [new Mesh(inline, SHOP), new Mesh(pooled(1), SHOP), new Mesh(pooled(2), SHOP)];
    const proxies = meshes.map((mesh) => [
      mesh.connect(sidecar('10.0.0.1', 'shop')),
      mesh.connect(sidecar('10.5.0.2', 'client')),
    ]);
    const steps: readonly [readonly AnyResource[], readonly string[]][] = [
      [[virtualService('shop', 'web', '3s')], []],
      [[service('shop', 'api', { clusterIP: '10.9.0.7' }), endpoints('shop', 'api', '10.0.1.1')], []],
      [[virtualService('shop', 'web', '5s'), service('shop', 'web', { clusterIP: '10.9.0.2' })], []],
      [[], ['Service/other/db']],
    ];
    for (const [sets, deletes] of [[[], []] as const, ...steps]) {
      for (const mesh of meshes) mesh.change(sets, deletes);
      await Promise.all(meshes.map((mesh) => mesh.settled()));
      const [first, ...rest] = proxies.map((pair) => pair.map(({ session }) => content(session)));
      for (const other of rest) assert.deepEqual(other, first);
    }
  });

  it('loses nothing when a worker is killed in the middle of a job', async () => {
    const crashes: unknown[] = [];
    const mesh = new Mesh(pooled(1, crashes), SHOP);
    const { session } = mesh.connect(sidecar('10.5.0.1', 'shop'));
    await session.ready;
    await mesh.settled();
    mesh.change([virtualService('shop', 'web', '7s')]);
    const pool = mesh.generator;
    assert.ok(pool instanceof PoolGenerator);
    for (const thread of pool.threads) void thread.terminate();
    await mesh.settled();
    const fresh = new Mesh(inline, [...SHOP, virtualService('shop', 'web', '7s')]);
    const reference = fresh.connect(sidecar('10.5.0.1', 'shop'));
    await reference.session.ready;
    assert.deepEqual(content(session), content(reference.session));
    assert.equal(crashes.length, 1);
    assert.deepEqual(mesh.failures, []);
  });
});
