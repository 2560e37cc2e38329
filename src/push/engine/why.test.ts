import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { inline, Mesh, meshResource, ready, service, sidecar, virtualService } from '../testing/mesh.ts';

const WEB = 'web.shop.svc.cluster.local';

describe('why', () => {
  it('names the documents that a resource was generated from', async () => {
    const rule = meshResource('DestinationRule', 'shop', 'web', {
      host: 'web',
      trafficPolicy: { loadBalancer: { simple: 'RANDOM' } },
    });
    const mesh = new Mesh(inline, [service('shop', 'web'), rule]);
    const proxy = mesh.connect(sidecar('10.5.0.1', 'shop'));
    await ready(mesh, proxy);
    const [session] = mesh.engine.sessions();
    assert.ok(session !== undefined);
    const [reason, ...others] = mesh.engine.reasonsFor(session, `outbound|80||${WEB}`);
    assert.deepEqual([reason?.type, reason?.unit, others], ['cds', WEB, []]);
    assert.deepEqual(reason?.documents, ['DestinationRule/shop/web', 'Service/shop/web']);
    assert.deepEqual(mesh.engine.reasonsFor(session, 'nothing'), []);
  });

  it('finds clusters that depend on the placement, and no clusters that the proxy does not have', async () => {
    const endpoints = ['eu/a', 'eu/b'].map((locality, index) => ({ address: `api${index}.example.com`, locality }));
    const entry = meshResource('ServiceEntry', 'shop', 'api', {
      hosts: ['api.example.com'],
      ports: [{ number: 80, name: 'http', protocol: 'HTTP' }],
      location: 'MESH_EXTERNAL',
      resolution: 'DNS',
      endpoints,
    });
    const trafficPolicy = { outlierDetection: { consecutive5xxErrors: 5 } };
    const rule = meshResource('DestinationRule', 'shop', 'api', { host: 'api.example.com', trafficPolicy });
    const mesh = new Mesh(inline, [service('shop', 'web'), entry, rule]);
    const proxy = mesh.connect({ ...sidecar('10.5.0.1', 'shop'), locality: 'eu/a' });
    await ready(mesh, proxy);
    const [session] = mesh.engine.sessions();
    assert.ok(session !== undefined);
    const documents = (cluster: string) => mesh.engine.reasonsFor(session, cluster).map((reason) => reason.documents);
    assert.deepEqual(documents('outbound|80||api.example.com'), [
      ['DestinationRule/shop/api', 'ServiceEntry/shop/api'],
    ]);
    assert.deepEqual(documents('outbound|81||api.example.com'), []);
    assert.deepEqual(documents(`outbound|81||${WEB}`), []);
  });

  it('names the proxies that a document was read for, and no others', async () => {
    const mesh = new Mesh(inline, [service('shop', 'web'), virtualService('shop', 'web', '3s')]);
    const inside = mesh.connect(sidecar('10.5.0.1', 'shop'));
    const outside = mesh.connect(sidecar('10.5.0.2', 'other'));
    await ready(mesh, inside, outside);
    const readers = (key: string) =>
      new Map([...mesh.engine.readersOf(key)].map(([{ node }, units]) => [node.namespace, units]));
    // The virtual service is exported to its own namespace alone, the service to all.
    assert.deepEqual([...readers('VirtualService/shop/web')], [['shop', [{ rds: ['80'] }]]]);
    assert.deepEqual([...readers('Service/shop/web').keys()].sort(), ['other', 'shop']);
    assert.equal(readers('Service/shop/none').size, 0);
  });
});
