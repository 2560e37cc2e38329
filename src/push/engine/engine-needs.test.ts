/** What a stream has generated: the types that it asks for, when it asks for them. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { scopeOf } from '../testing/faults.ts';
import { content, endpoints, heldMesh, ready, service, sidecar, turns } from '../testing/mesh.ts';

const SHOP = [service('shop', 'web'), endpoints('shop', 'web', '10.0.0.1')];

describe('what is generated for a proxy', () => {
  it('is what it asks for, and other types when it asks for them', async () => {
    const { mesh, generator } = heldMesh(SHOP);
    const { engine } = mesh;
    const sink = { push: () => 'nothing' as const };
    const session = engine.connect(sidecar('10.5.0.1', 'client'), sink, 'one', ['cds']);
    await session.ready;
    assert.ok(content(session).cds.length > 0 && content(session).eds.length > 0);
    assert.deepEqual([content(session).lds, content(session).rds], [[], []]);
    // Nothing of the other types is kept up to date for nobody.
    const asked: string[][] = [];
    generator.held = true;
    mesh.change([service('shop', 'api')]);
    await turns();
    for (const { source } of generator.waiting) asked.push(Object.keys(source.takeJob().units));
    assert.deepEqual(asked, [['cds']]);
    generator.held = false;
    generator.release('');
    await mesh.settled();
    assert.equal(session.need('eds'), undefined);
    await session.need('lds');
    assert.ok(content(session).lds.length > 0 && content(session).rds.length > 0);
    assert.equal(session.need('rds'), undefined);
    // The same as for who asks for everything at once.
    const all = mesh.connect(sidecar('10.5.0.2', 'client'));
    await ready(mesh, all);
    assert.deepEqual(content(all.session), content(session));
  });

  it('is awaited by all requests that need it, which fail with the session or with generation', async () => {
    const { mesh, generator } = heldMesh(SHOP);
    const sink = { push: () => 'nothing' as const };
    const connect = () => mesh.engine.connect(sidecar('10.5.0.1', 'client'), sink, 'one', ['cds']);
    const [one, two] = [connect(), connect()];
    await Promise.all([one.ready, two.ready]);
    generator.held = true;
    const waits = [one.need('lds'), one.need('rds')];
    assert.ok(waits[0] !== undefined && waits[1] !== undefined);
    one.close();
    for (const wait of waits) await assert.rejects(wait ?? Promise.resolve(), { code: 'unavailable' });
    const failing = two.need('lds');
    generator.release('', new Error('broken'));
    await assert.rejects(failing ?? Promise.resolve(), { code: 'internal' });
    // What it had it keeps.
    assert.ok(content(two).cds.length > 0);
  });

  describe('while a request waits and the proxy changes its views', () => {
    const narrow = scopeOf('web', 'client', 'shop/*');
    const sink = { push: () => 'nothing' as const };

    /** A proxy that waits for its listeners, in views that no other proxy has. */
    async function waiting() {
      const { mesh, generator } = heldMesh([...SHOP, narrow]);
      const node = { ...sidecar('10.5.0.1', 'client'), labels: { app: 'web' } };
      const session = mesh.engine.connect(node, sink, 'one', ['cds']);
      await session.ready;
      const begin = async () => {
        generator.held = true;
        const answer = { given: false };
        void session.need('lds')?.then(() => {
          answer.given = true;
        });
        await turns();
        assert.equal(answer.given, false);
        return answer;
      };
      return { mesh, generator, session, begin };
    }

    it('is answered when it moves at once to views that have the type already', async () => {
      const { mesh, session, begin } = await waiting();
      await ready(mesh, mesh.connect(sidecar('10.5.0.2', 'client')));
      const answer = await begin();
      mesh.change([scopeOf('another', 'client', 'shop/*')]);
      await turns();
      assert.ok(content(session).lds.length > 0);
      assert.equal(answer.given, true);
    });

    it('is answered when it keeps its views after all, which were generated meanwhile', async () => {
      const { mesh, generator, session, begin } = await waiting();
      const answer = await begin();
      mesh.change([scopeOf('another', 'client', 'shop/*')]);
      generator.release('outbound:client/of-app');
      generator.release('inbound:client/of-app');
      await turns();
      assert.equal(answer.given, false);
      mesh.change([narrow]);
      await turns();
      assert.ok(content(session).lds.length > 0);
      assert.equal(answer.given, true);
    });
  });
});
