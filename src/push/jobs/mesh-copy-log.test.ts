import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { applyChanges } from '../../model/testing/steps.ts';
import type { Snapshot } from '../../model/types/types.ts';
import { type AnyResource, keyOf, type ResourceChange, type ResourceKey } from '../../resources/kinds/types.ts';
import { defaultMeshConfig } from '../../resources/mesh-config.ts';
import { emptySnapshot, endpoints, meshResource, service, virtualService } from '../testing/mesh.ts';
import { MeshCopyLog } from './mesh-copy-log.ts';

function set(after: AnyResource): ResourceChange {
  return { key: keyOf(after), before: undefined, after };
}

function gone(key: ResourceKey): ResourceChange {
  return { key, before: undefined, after: undefined };
}

/** A log together with the snapshots whose changes it has. */
class LoggedMesh {
  snapshot: Snapshot = emptySnapshot();
  readonly log = new MeshCopyLog(this.snapshot);

  step(changes: readonly ResourceChange[], mesh?: Snapshot['mesh']): void {
    const { snapshot, delta } = applyChanges(this.snapshot, { changes, ...(mesh === undefined ? {} : { mesh }) });
    this.snapshot = snapshot;
    this.log.append(snapshot, delta);
  }
}

const WEB = service('shop', 'web');
const WEB_KEY = 'shop/web.shop.svc.cluster.local';

describe('mesh copy log', () => {
  it('sends everything that generation reads to a new worker, with settings and mesh', () => {
    const mesh = new LoggedMesh();
    mesh.step([set(WEB), set(virtualService('shop', 'web', '1s')), set(endpoints('shop', 'web', '10.0.0.1'))]);
    const update = mesh.log.since(0);
    assert.deepEqual([update.fromVersion, update.toVersion], [0, 2]);
    assert.deepEqual([...update.services.keys()], [WEB_KEY]);
    assert.deepEqual([...update.configs.keys()], ['VirtualService/shop/web']);
    assert.ok(update.settings !== undefined && update.mesh !== undefined && update.networks !== undefined);
  });

  it('does not send the resources that services are derived from', () => {
    const mesh = new LoggedMesh();
    mesh.step([set(WEB)]);
    for (let index = 0; index < 1000; index++) mesh.step([set(endpoints('shop', 'web', `10.0.0.${index % 250}`))]);
    assert.equal(mesh.log.size, 1);
    const update = mesh.log.since(0);
    assert.deepEqual([[...update.endpoints], [...update.configs]], [[], []]);
  });

  it('sends everything after a step that was not appended', () => {
    const mesh = new LoggedMesh();
    mesh.step([set(WEB)]);
    const { version } = mesh.snapshot;
    mesh.snapshot = applyChanges(mesh.snapshot, { changes: [set(virtualService('shop', 'web', '1s'))] }).snapshot;
    mesh.step([set(service('shop', 'db'))]);
    const update = mesh.log.since(version);
    assert.deepEqual([update.fromVersion, update.services.size], [0, 2]);
    assert.deepEqual([...update.configs.keys()], ['VirtualService/shop/web']);
  });

  it('sends the endpoints that clusters and listeners contain', () => {
    const mesh = new LoggedMesh();
    const spec = {
      hosts: ['db.example.com'],
      resolution: 'DNS',
      ports: [{ number: 80, name: 'http', protocol: 'HTTP' }],
    };
    const entry = (address: string) =>
      set(meshResource('ServiceEntry', 'shop', 'db', { ...spec, endpoints: [{ address }] }));
    mesh.step([entry('a.example.com'), set(service('shop', 'pods', { clusterIP: 'None' }))]);
    mesh.step([set(endpoints('shop', 'pods', '10.0.0.1'))]);
    const { version } = mesh.snapshot;
    const addresses = (from: number) =>
      [...mesh.log.since(from).endpoints].map(([key, list]) => [key, list?.map(({ address }) => address)]);
    const pods = ['shop/pods.shop.svc.cluster.local', ['10.0.0.1']];
    assert.deepEqual(addresses(0).sort(), [['shop/db.example.com', ['a.example.com']], pods]);
    mesh.step([entry('b.example.com')]);
    assert.deepEqual(addresses(version), [['shop/db.example.com', ['b.example.com']]]);
    mesh.step([set(meshResource('ServiceEntry', 'shop', 'db', { ...spec, resolution: 'NONE' }))]);
    assert.deepEqual(addresses(version), [['shop/db.example.com', undefined]]);
    assert.deepEqual(addresses(0), [pods]);
  });

  it('sends what changed since a version, each value once and in its newest form', () => {
    const mesh = new LoggedMesh();
    mesh.step([set(WEB)]);
    const at = mesh.snapshot.version;
    mesh.step([set(virtualService('shop', 'web', '1s'))]);
    const last = virtualService('shop', 'web', '2s');
    mesh.step([set(last), gone('Service/shop/web')]);
    const update = mesh.log.since(at);
    assert.deepEqual([update.fromVersion, update.toVersion], [at, at + 2]);
    assert.deepEqual([...update.configs], [['VirtualService/shop/web', last]]);
    assert.deepEqual([...update.services], [[WEB_KEY, undefined]]);
    assert.equal(update.mesh, undefined);
    assert.deepEqual([...mesh.log.since(at + 2).configs], []);
  });

  it('knows how many values a worker lacks', () => {
    const mesh = new LoggedMesh();
    mesh.step([set(WEB)]);
    const { version } = mesh.snapshot;
    mesh.step([set(virtualService('shop', 'web', '1s')), set(virtualService('shop', 'db', '1s'))]);
    const lacking = (from: number) => mesh.log.lacking(from);
    assert.deepEqual([lacking(version + 1), lacking(version)], [0, 2]);
    const { services, peers, endpoints, configs } = mesh.log.since(0);
    assert.equal(lacking(0), services.size + peers.size + endpoints.size + configs.size);
    assert.ok(lacking(0) > 2);
  });

  it('sends the mesh configuration if it changed since', () => {
    const mesh = new LoggedMesh();
    mesh.step([], { ...defaultMeshConfig(), rootNamespace: 'elsewhere' });
    assert.equal(mesh.log.since(1).mesh?.rootNamespace, 'elsewhere');
    assert.equal(mesh.log.since(2).mesh, undefined);
  });

  it('drops what all workers have, and sends everything to an older one', () => {
    const mesh = new LoggedMesh();
    for (let index = 0; index < 5; index++) mesh.step([set(service('shop', `s${index}`))]);
    mesh.log.trim(4);
    assert.equal(mesh.log.size, 2);
    const names = [...mesh.log.since(4).services.keys()].map((key) => key.slice(0, 7));
    assert.deepEqual(names, ['shop/s3', 'shop/s4']);
    assert.equal(mesh.log.since(3).fromVersion, 0);
  });

  it('is enough for a worker to catch up after any number of changes of the same resource', () => {
    const mesh = new LoggedMesh();
    for (let index = 0; index < 1000; index++) mesh.step([set(virtualService('shop', 'web', `${index + 1}s`))]);
    assert.equal(mesh.log.size, 1);
    assert.equal(mesh.log.since(1).fromVersion, 1);
  });

  it('is bounded when names come and go and a worker never catches up', () => {
    const mesh = new LoggedMesh();
    for (let version = 0; version < 20; version++) {
      mesh.step(Array.from({ length: 1000 }, (_, index) => gone(`Secret/shop/s${version}-${index}`)));
    }
    assert.ok(mesh.log.size <= 8192);
    assert.equal(mesh.log.since(1).fromVersion, 0);
    assert.equal(mesh.log.since(mesh.snapshot.version - 3).configs.size, 3000);
  });
});
