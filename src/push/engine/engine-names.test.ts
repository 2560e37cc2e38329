/** The name table in the engine: who gets it, and which changes touch it. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { XdsType } from '../../core/xds-types.ts';
import { content, endpoints, heldMesh, parse, ready, service, sidecar, turns } from '../testing/mesh.ts';
import type { ProxySession } from '../types.ts';

const DB = service('shop', 'db', { clusterIP: 'None' });
const SHOP = [DB, endpoints('shop', 'db', '10.0.0.1')];

const rule = parse({
  apiVersion: 'networking.mesh.io/v1alpha3',
  kind: 'DestinationRule',
  metadata: { name: 'db', namespace: 'shop' },
  spec: { host: 'db.shop.svc.cluster.local', trafficPolicy: { loadBalancer: { simple: 'ROUND_ROBIN' } } },
});

const sink = { push: () => 'nothing' as const };

describe('the name table of a proxy', () => {
  it('is generated only for proxies that subscribe to it', async () => {
    const { mesh, generator } = heldMesh(SHOP);
    const connect = (address: string, types: readonly XdsType[]): ProxySession =>
      mesh.engine.connect(sidecar(address, 'client'), sink, 'one', types);
    const envoy = connect('10.5.0.1', ['cds', 'lds']);
    await envoy.ready;
    generator.held = true;
    mesh.change([service('shop', 'api')]);
    await turns();
    const generated = generator.waiting.flatMap(({ source }) => Object.keys(source.takeJob().units));
    assert.deepEqual([generated.includes('lds'), generated.includes('nds')], [true, false]);
    generator.held = false;
    generator.release('');
    await mesh.settled();
    assert.deepEqual(content(envoy).nds, []);
    const agent = connect('10.5.0.2', ['nds']);
    await agent.ready;
    assert.equal(content(agent).nds.length, 1);
  });

  it('changes with services and endpoints of headless ones, and not with rules', async () => {
    const { mesh } = heldMesh(SHOP);
    const agent = mesh.connect(sidecar('10.5.0.2', 'client'));
    await ready(mesh, agent);
    const changed = async (change: () => void): Promise<boolean> => {
      const before = content(agent.session).nds;
      change();
      await mesh.settled();
      return content(agent.session).nds[0]?.[1] !== before[0]?.[1];
    };
    assert.equal(await changed(() => mesh.change([rule])), false);
    assert.equal(await changed(() => mesh.change([endpoints('shop', 'db', '10.0.0.2')])), true);
    assert.equal(await changed(() => mesh.change([service('shop', 'api')])), true);
    // The endpoints of other services are not names.
    assert.equal(await changed(() => mesh.change([endpoints('shop', 'api', '10.0.0.7')])), false);
  });

  it('is in pieces for agents that merge them, of which a service changes one', async () => {
    const { mesh } = heldMesh([...SHOP, ...Array.from({ length: 40 }, (_, index) => service('shop', `s${index}`))]);
    const agent = mesh.connect({ ...sidecar('10.5.0.2', 'client'), mergesNames: true });
    await ready(mesh, agent);
    const before = new Map(content(agent.session).nds);
    assert.ok(before.size > 30);
    mesh.change([service('shop', 's7', { clusterIP: '10.9.9.9' })]);
    await mesh.settled();
    const after = content(agent.session).nds;
    assert.equal(after.length, before.size);
    assert.equal(after.filter(([name, version]) => before.get(name) !== version).length, 1);
  });
});
