import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { SHOP, scope, scopeOf } from '../testing/faults.ts';
import { content, endpoints, heldMesh, inline, Mesh, ready, service, sidecar, turns } from '../testing/mesh.ts';

describe('engine: moving between views', () => {
  it('never shows a proxy an empty configuration while its Sidecar is deleted', async () => {
    const mesh = new Mesh(inline, [...SHOP, scope('client', 'shop/*')]);
    const proxy = mesh.connect(sidecar('10.5.0.1', 'client'));
    await ready(mesh, proxy);
    mesh.change([], ['Sidecar/client/default']);
    await mesh.settled();
    assert.ok(proxy.seen.length > 0);
    for (const { cds, lds } of proxy.seen) {
      assert.ok(cds.some(([name]) => name.includes('web.shop')));
      assert.ok(lds.length > 0);
    }
    assert.ok(content(proxy.session).cds.some(([name]) => name.includes('db.other')));
  });

  it('does not push endpoints of the views that the same change makes it leave', async () => {
    const { mesh, generator } = heldMesh(SHOP);
    const proxy = mesh.connect(sidecar('10.5.0.1', 'client'));
    await ready(mesh, proxy);
    generator.held = true;
    mesh.change([endpoints('shop', 'web', '10.0.0.2'), scope('client', 'other/*')]);
    await turns();
    assert.deepEqual(proxy.pushes, []);
    generator.held = false;
    generator.release('');
    await mesh.settled();
    assert.ok(proxy.seen.length > 0);
    for (const { eds } of proxy.seen) assert.ok(!eds.some(([name]) => name.includes('web.shop')));
  });

  it('generates nothing for a view that all its proxies are leaving', async () => {
    const { mesh, generator } = heldMesh(SHOP);
    mesh.change([scope('client', 'shop/*')]);
    const proxy = mesh.connect(sidecar('10.5.0.1', 'client'));
    await ready(mesh, proxy);
    generator.held = true;
    mesh.change([], ['Sidecar/client/default']);
    await turns();
    assert.deepEqual(generator.waiting.map(({ source }) => source.key.slice(0, source.key.lastIndexOf(':'))).sort(), [
      'inbound:client/',
      'outbound:client/',
    ]);
    generator.release('');
    generator.held = false;
    await mesh.settled();
    const fresh = new Mesh(inline, SHOP).connect(sidecar('10.5.0.1', 'client'));
    await fresh.session.ready;
    assert.deepEqual(content(proxy.session), content(fresh.session));
  });

  it('stays at its views when the change is reverted before it has moved', async () => {
    const { mesh, generator } = heldMesh(SHOP);
    const narrow = scope('client', 'shop/*');
    mesh.change([narrow]);
    const proxy = mesh.connect(sidecar('10.5.0.1', 'client'));
    await ready(mesh, proxy);
    generator.held = true;
    mesh.change([], ['Sidecar/client/default']);
    await turns();
    mesh.change([narrow, service('shop', 'api')]);
    await turns();
    generator.held = false;
    generator.release('');
    await mesh.settled();
    const reference = new Mesh(inline, [...SHOP, narrow, service('shop', 'api')]);
    const fresh = reference.connect(sidecar('10.5.0.1', 'client'));
    await fresh.session.ready;
    assert.deepEqual(content(proxy.session), content(fresh.session));
    assert.deepEqual(proxy.seen.at(-1), content(fresh.session));
  });

  describe('when the change also has endpoints', () => {
    const narrow = scopeOf('web', 'client', 'shop/*');

    async function moving() {
      const { mesh, generator } = heldMesh([service('shop', 'web'), endpoints('shop', 'web', '10.0.0.1'), narrow]);
      const proxy = mesh.connect({ ...sidecar('10.5.0.1', 'client'), labels: { app: 'web' } });
      await ready(mesh, proxy);
      generator.held = true;
      mesh.change([endpoints('shop', 'web', '10.0.0.9'), scopeOf('another', 'client', 'shop/*')]);
      await turns();
      assert.deepEqual(proxy.pushes, []);
      const endpointsPushed = () => proxy.pushes.some(({ types }) => types.has('eds'));
      return { mesh, generator, endpointsPushed };
    }

    it('pushes the endpoints with the move, though both views have the same', async () => {
      const { mesh, generator, endpointsPushed } = await moving();
      generator.held = false;
      generator.release('');
      await mesh.settled();
      assert.ok(endpointsPushed());
      assert.ok(mesh.allSettled());
    });

    it('pushes the endpoints when it is unknown when it will move', async () => {
      const { generator, endpointsPushed } = await moving();
      generator.release('', new Error('no'));
      await turns();
      assert.ok(endpointsPushed());
    });

    it('pushes the endpoints when it does not move after all', async () => {
      const { mesh, generator, endpointsPushed } = await moving();
      mesh.change([narrow]);
      generator.held = false;
      generator.release('');
      await mesh.settled();
      assert.ok(endpointsPushed());
      assert.ok(mesh.allSettled());
    });
  });

  describe('to a view with other proxies that the change also touches', () => {
    const before = [...SHOP, scope('client', 'shop/*'), scopeOf('web', 'client', '*/*')];
    const after = [...SHOP, scope('client', '*/*')];
    const hasDb = ({ cds }: { readonly cds: readonly (readonly [string, string])[] }) =>
      cds.some(([name]) => name.includes('db.other'));

    async function moving() {
      const { mesh, generator } = heldMesh(before);
      const proxy = mesh.connect({ ...sidecar('10.5.0.1', 'client'), labels: { app: 'web' } });
      const other = mesh.connect(sidecar('10.5.0.2', 'client'));
      await ready(mesh, proxy, other);
      assert.ok(hasDb(content(proxy.session)) && !hasDb(content(other.session)));
      generator.held = true;
      mesh.change([scope('client', '*/*')], ['Sidecar/client/of-app']);
      await turns();
      return { mesh, generator, proxy };
    }

    it('keeps its views until the other view includes the change', async () => {
      const { mesh, generator, proxy } = await moving();
      const { version } = mesh.engine.snapshot;
      assert.ok(hasDb(content(proxy.session)));
      assert.equal(proxy.session.completeVersion(), version - 1);
      generator.held = false;
      generator.release('');
      await mesh.settled();
      for (const seen of proxy.seen) assert.ok(hasDb(seen));
      assert.equal(proxy.session.completeVersion(), version);
      const fresh = new Mesh(inline, after).connect({ ...sidecar('10.5.0.1', 'client'), labels: { app: 'web' } });
      await fresh.session.ready;
      assert.deepEqual(content(proxy.session), content(fresh.session));
    });

    it('accepts the other view as it was when that cannot be generated', async () => {
      const { mesh, generator, proxy } = await moving();
      generator.release('', new Error('no'));
      await turns();
      assert.ok(!hasDb(content(proxy.session)));
      generator.held = false;
      mesh.retry();
      await mesh.settled();
      assert.ok(hasDb(content(proxy.session)));
    });
  });

  it('does not keep what was generated while the Sidecar of a view was deleted', async () => {
    const narrow = scope('client', 'shop/*');
    const mesh = new Mesh(inline, [...SHOP, narrow]);
    const proxy = mesh.connect(sidecar('10.5.0.1', 'client'));
    mesh.change([], ['Sidecar/client/default']);
    await ready(mesh, proxy);
    mesh.change([narrow]);
    await mesh.settled();
    const fresh = new Mesh(inline, [...SHOP, narrow]).connect(sidecar('10.5.0.1', 'client'));
    await fresh.session.ready;
    assert.deepEqual(content(proxy.session), content(fresh.session));
  });

  it('does not show what was generated while a Sidecar was deleted when it is restored before the answer', async () => {
    const narrow = scope('client', 'shop/*');
    let gate = Promise.resolve();
    const mesh = new Mesh(
      (snapshot) => {
        const inner = inline(snapshot);
        return {
          advance: (next, changes) => inner.advance(next, changes),
          submit: async (source) => {
            const job = await inner.submit(source);
            await gate;
            return job;
          },
          released: (ids) => inner.released(ids),
          withdraw: (source) => inner.withdraw(source),
          close: () => inner.close(),
        };
      },
      [...SHOP, narrow],
    );
    const proxy = mesh.connect(sidecar('10.5.0.1', 'client'));
    await ready(mesh, proxy);
    const { promise, resolve } = Promise.withResolvers<void>();
    gate = promise;
    mesh.change([service('shop', 'api')]);
    mesh.change([], ['Sidecar/client/default']);
    await turns();
    mesh.change([narrow]);
    resolve();
    await mesh.settled();
    const fresh = new Mesh(inline, [...SHOP, narrow, service('shop', 'api')]).connect(sidecar('10.5.0.1', 'client'));
    await fresh.session.ready;
    for (const { lds } of proxy.seen) assert.ok(lds.length > 0);
    assert.deepEqual(content(proxy.session), content(fresh.session));
  });
});

describe('engine: pushes postponed for another part', () => {
  it('are sent when the proxy moves to other views', async () => {
    const { mesh, generator } = heldMesh(SHOP);
    const proxy = mesh.connect(sidecar('10.0.0.7', 'shop'));
    await ready(mesh, proxy);
    generator.held = true;
    // Outbound and inbound of the proxy are generated; outbound ends first.
    mesh.change([scope('shop', './*', 'other/*')]);
    await turns();
    generator.release('outbound');
    await turns();
    generator.release('inbound');
    generator.held = false;
    await mesh.settled();
    assert.ok(mesh.allSettled());
  });

  it('wait for that part once, however often it is generated again', async () => {
    const { mesh, generator } = heldMesh(SHOP);
    const proxy = mesh.connect(sidecar('10.0.0.7', 'shop'));
    mesh.change([scope('shop', './*')]);
    await ready(mesh, proxy);
    generator.held = true;
    mesh.change([scope('shop', './*', 'other/*')]);
    await turns();
    generator.release('outbound');
    await turns();
    assert.equal(proxy.pushes.length, 0);
    mesh.change([service('other', 'new')]);
    await turns();
    generator.release('outbound');
    await turns();
    assert.ok(generator.waiting.some(({ source }) => source.key.startsWith('inbound')));
    assert.equal(proxy.pushes.length, 1);
    assert.ok(proxy.seen.at(-1)?.cds.some(([name]) => name.includes('new.other')));
  });

  it('do not wait for a part that could not be generated', async () => {
    const { mesh, generator } = heldMesh(SHOP);
    const proxy = mesh.connect(sidecar('10.0.0.7', 'shop'));
    mesh.change([scope('shop', './*')]);
    await ready(mesh, proxy);
    generator.held = true;
    mesh.change([scope('shop', './*', 'other/*')]);
    await turns();
    generator.release('inbound', new Error('cannot be generated'));
    await turns();
    generator.release('outbound');
    generator.held = false;
    await turns();
    assert.ok(proxy.pushes.length > 0);
    assert.ok(proxy.seen.at(-1)?.cds.some(([name]) => name.includes('db.other')));
  });
});
