/** What a stream has generated: the types that it asks for, when it asks for them. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
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
});
