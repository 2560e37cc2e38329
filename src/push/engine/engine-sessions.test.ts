import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { SHOP } from '../testing/faults.ts';
import { content, endpoints, heldMesh, inline, Mesh, ready, sidecar, turns, virtualService } from '../testing/mesh.ts';

describe('engine: sessions', () => {
  it('are not generated for after they are closed', async () => {
    const { mesh, generator } = heldMesh(SHOP);
    generator.held = true;
    const proxies = Array.from({ length: 50 }, (_, index) => mesh.connect(sidecar('10.5.0.1', `guest-${index}`)));
    assert.equal(generator.waiting.length, 100);
    for (const { session } of proxies) session.close();
    for (const { session } of proxies) await assert.rejects(session.ready, { code: 'unavailable' });
    assert.equal(generator.waiting.length, 0);
    // What was taken back is generated when somebody needs it.
    generator.held = false;
    const proxy = mesh.connect(sidecar('10.5.0.1', 'guest-1'));
    await ready(mesh, proxy);
    assert.ok(content(proxy.session).cds.length > 0);
  });

  it('settles `ready` of a session that is closed before its views are built', async () => {
    const { mesh, generator } = heldMesh(SHOP);
    generator.held = true;
    const { session } = mesh.connect(sidecar('10.5.0.1', 'client'));
    session.close();
    await assert.rejects(session.ready, { code: 'unavailable' });
  });

  it('frees the slot of a closed session, even if its push never ends', async () => {
    const mesh = new Mesh(inline, SHOP);
    const stuck = Array.from({ length: 12 }, (_, index) =>
      mesh.connect(sidecar(`10.5.0.${index}`, 'client'), () => new Promise(() => {})),
    );
    await Promise.all(stuck.map(({ session }) => session.ready));
    await turns();
    for (const { session } of stuck) session.close();
    assert.deepEqual(
      { ...mesh.engine.stats(), interned: 0, views: 0, facts: 0 },
      { queued: 0, underWay: 0, interned: 0, views: 0, facts: 0 },
    );
  });

  it('share one push for a change, also with their measurement of convergence', async () => {
    const mesh = new Mesh(inline, SHOP);
    const proxies = Array.from({ length: 3 }, (_, index) =>
      mesh.connect(sidecar(`10.5.0.${index}`, 'client'), async () => 'sent'),
    );
    await Promise.all(proxies.map(({ session }) => session.ready));
    await mesh.settled();
    for (const session of mesh.engine.sessions()) session.synced(session.version());
    mesh.change([endpoints('shop', 'web', '10.0.0.7')]);
    await mesh.settled();
    const pushes = new Set(proxies.map((proxy) => proxy.pushes.at(-1)));
    assert.deepEqual(
      [...pushes].map((push) => [...(push?.types ?? [])]),
      [['eds']],
    );
    assert.deepEqual(new Set([...mesh.engine.sessions()].map(({ converging }) => converging)), pushes);
  });

  it('keeps nothing of a proxy whose views cannot be determined', () => {
    const mesh = new Mesh(inline, SHOP);
    const broken = sidecar('10.5.0.1', 'client');
    Object.defineProperty(broken, 'labels', {
      get: () => {
        throw new Error('broken');
      },
    });
    assert.throws(() => mesh.connect(broken));
    assert.deepEqual([...mesh.engine.sessions()], []);
  });

  it('observes the convergence of an endpoint change acknowledged while an unrelated job was under way', async () => {
    const { mesh, generator } = heldMesh(SHOP);
    const proxy = mesh.connect(sidecar('10.5.0.1', 'client'));
    await ready(mesh, proxy);
    mesh.converged.length = 0;
    generator.held = true;
    // Concerns the view (a virtual service for all), but comes to the same bytes.
    mesh.change([virtualService('client', 'nothing', '3s')]);
    mesh.change([endpoints('shop', 'web', '10.0.0.5')]);
    await turns();
    generator.release('');
    generator.held = false;
    await mesh.settled();
    assert.equal(mesh.converged.length, 1);
    assert.ok(mesh.allSettled());
  });
});
