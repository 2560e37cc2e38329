import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Generator } from '../jobs/generator.ts';
import { inline, Mesh, service, sidecar } from '../testing/mesh.ts';
import { IDLE_VIEW_MS } from './view-table.ts';

/** An engine whose generator records the scopes that it should release. */
function meshWithNotes(): { readonly mesh: Mesh; readonly released: string[] } {
  const released: string[] = [];
  const mesh = new Mesh(
    (snapshot): Generator => {
      const inner = inline(snapshot);
      return {
        advance: (next, changes) => inner.advance(next, changes),
        submit: (source) => inner.submit(source),
        released: (ids) => released.push(...ids),
        withdraw: (source) => inner.withdraw(source),
        close: () => inner.close(),
      };
    },
    [service('shop', 'web')],
  );
  return { mesh, released };
}

const router = (address: string, namespace: string) => ({ ...sidecar(address, namespace), type: 'router' as const });

describe('scopes in use', () => {
  it('are those of live views: none of 200 namespaces without proxies is kept up to date', async () => {
    const { mesh, released } = meshWithNotes();
    const stays = [mesh.connect(sidecar('10.1.0.1', 'shop')), mesh.connect(router('10.1.0.2', 'edge'))];
    const gone = Array.from({ length: 200 }, (_, index) => mesh.connect(sidecar(`10.2.0.${index}`, `gone-${index}`)));
    await Promise.all([...stays, ...gone].map(({ session }) => session.ready));
    assert.equal(mesh.model.scopes, 202);
    for (const { session } of gone) session.close();
    mesh.ahead += IDLE_VIEW_MS + 1;
    mesh.change([service('shop', 'first')]);
    assert.equal(mesh.model.scopes, 2);
    assert.deepEqual(released.sort(), Array.from({ length: 200 }, (_, index) => `gone-${index}/`).sort());
    // Scopes that are kept are notified of changes, and nothing else is examined.
    const { scopes } = mesh.change([service('shop', 'second')]);
    assert.deepEqual([...scopes.keys()].sort(), ['edge/', 'shop/']);
    await mesh.settled();
    for (const { session } of stays) {
      assert.ok(session.parts('cds').some((bundle) => bundle.get('outbound|80||second.shop.svc.cluster.local')));
    }
  });

  it('are built again for a namespace with new proxies, and follow changes again', async () => {
    const { mesh } = meshWithNotes();
    const first = mesh.connect(sidecar('10.1.0.1', 'back'));
    await first.session.ready;
    first.session.close();
    mesh.ahead += IDLE_VIEW_MS + 1;
    mesh.change([service('shop', 'meanwhile')]);
    assert.equal(mesh.model.scopes, 0);
    const again = mesh.connect(sidecar('10.1.0.1', 'back'));
    await again.session.ready;
    mesh.change([service('shop', 'later')]);
    await mesh.settled();
    const names = again.session.parts('cds').flatMap((bundle) => bundle.resources().map(({ name }) => name));
    for (const name of ['web', 'meanwhile', 'later']) {
      assert.ok(names.includes(`outbound|80||${name}.shop.svc.cluster.local`), name);
    }
  });

  it('are bounded when connections close while nothing is published', async () => {
    const { mesh } = meshWithNotes();
    for (let index = 0; index < 400; index++) {
      const { session } = mesh.connect(sidecar('10.2.0.1', `gone-${index}`));
      await session.ready;
      session.close();
      mesh.ahead += IDLE_VIEW_MS + 1;
    }
    assert.ok(mesh.model.scopes < 100, `${mesh.model.scopes} scopes`);
  });
});
