/** Which kinds the source reads while a server's discovery and definitions fail or disagree: none is lost. */
import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { waitUntil } from '../../core/testing/wait-until.ts';
import { fastClock } from '../../kubernetes/testing/fast-clock.ts';
import { DEFINITIONS, type ScriptedApiServer } from '../../kubernetes/testing/scripted-api-server.ts';
import { CORE, closeAll, follow, POLICIES, pathOf, ROUTES, scripted } from './testing/scripted-source.ts';

afterEach(closeAll);

describe('definitions of a scripted API server', () => {
  const policy = { metadata: { name: 'lock', namespace: 'shop' }, spec: {} };
  const LOCK = 'AuthorizationPolicy/shop/lock';
  const fastTime = fastClock(50);
  const discoveries = (server: ScriptedApiServer) =>
    server.requests.filter(({ path, query }) => path.startsWith('/apis') && !query.has('watch') && !query.has('limit'));

  test('keeps its policies when a proxy returns HTTP 404 for everything and definitions may not be watched', async () => {
    const server = await scripted(POLICIES);
    server.set(pathOf(POLICIES), policy);
    server.intercept = ({ path }, stream) => path === DEFINITIONS && server.fail(stream, 403, 'Forbidden');
    const { inForce, isSynced } = follow(server, { clock: fastTime, resyncMs: 1000 });
    await waitUntil(isSynced);
    server.intercept = (_, stream) => {
      stream.respond({ ':status': 404, 'content-type': 'text/plain' });
      stream.end('default backend - 404');
      return true;
    };
    server.endWatches();
    const since = fastTime.now();
    // Longer than a kind must be missing before it counts as gone.
    await waitUntil(() => fastTime.now() - since > 50_000 && discoveries(server).length >= 8);
    assert.deepEqual(inForce(), [LOCK]);
    server.intercept = () => false;
    server.set(pathOf(POLICIES), { ...policy, metadata: { name: 'late', namespace: 'shop' } });
    await waitUntil(() => inForce().length === 2);
  });

  for (const [name, body] of Object.entries({
    'an empty object': '{}',
    'a page of a proxy': '<html>\nlog in</html>',
  })) {
    test(`is not synced while API discovery is answered by ${name}`, async () => {
      const server = await scripted(POLICIES);
      server.set(pathOf(POLICIES), policy);
      let faulty = true;
      server.intercept = ({ path }, stream) => {
        if (path === DEFINITIONS) return server.fail(stream, 403, 'Forbidden');
        if (!faulty || !path.startsWith('/apis')) return false;
        stream.respond({ ':status': 200, 'content-type': 'text/html' });
        stream.end(body);
        return true;
      };
      const { inForce, isSynced, lists, lines } = follow(server, { clock: fastTime });
      await waitUntil(() => lists.length === CORE.length && discoveries(server).length >= 8);
      assert.equal(isSynced(), false);
      await waitUntil(() => lines.some((line) => /^API discovery: cannot be read: .*expected/.test(line)));
      assert.ok(lines.every((line) => !line.includes('\n')));
      faulty = false;
      await waitUntil(isSynced);
      assert.deepEqual(inForce(), [LOCK]);
    });
  }

  test('is not synced while discovery lacks a kind of policies that is defined', async () => {
    const server = await scripted(POLICIES);
    server.set(pathOf(POLICIES), policy);
    let lacking = true;
    server.intercept = ({ path, query }, stream) =>
      lacking && path.startsWith('/apis/security') && !query.has('watch') && server.fail(stream, 404, 'NotFound');
    const { inForce, isSynced, lists, lines } = follow(server, { clock: fastTime });
    await waitUntil(() => lists.length === CORE.length);
    const since = fastTime.now();
    await waitUntil(() => fastTime.now() - since > 50_000);
    assert.equal(isSynced(), false);
    await waitUntil(() =>
      lines.some((line) => /authorizationpolicies.security.mesh.io.*is not ready without it/.test(line)),
    );
    lacking = false;
    await waitUntil(isSynced);
    assert.deepEqual(inForce(), [LOCK]);
  });

  test('is not synced while definitions cannot be listed', async () => {
    const server = await scripted(POLICIES);
    server.set(pathOf(POLICIES), policy);
    let broken = true;
    server.intercept = ({ path, query }, stream) => {
      if (!broken) return false;
      if (path === DEFINITIONS) return server.fail(stream, 500, 'InternalError');
      return path === '/apis' && server.json(stream, { kind: 'APIGroupList', groups: [] }) && !query.has('watch');
    };
    const { inForce, isSynced, lists } = follow(server, { clock: fastTime });
    await waitUntil(() => lists.length === CORE.length);
    const since = fastTime.now();
    await waitUntil(() => fastTime.now() - since > 50_000);
    assert.equal(isSynced(), false);
    broken = false;
    await waitUntil(isSynced);
    assert.deepEqual(inForce(), [LOCK]);
  });

  test('is not synced where a kind of policies is served only in a version that is not read', async () => {
    const server = await scripted({ ...POLICIES, version: 'v9' });
    const { isSynced, lists, lines } = follow(server, { clock: fastTime });
    await waitUntil(() => lists.length === CORE.length);
    await waitUntil(() =>
      lines.some((line) => /authorizationpolicies.security.mesh.io.*is not ready without it/.test(line)),
    );
    assert.equal(isSynced(), false);
    server.define(POLICIES);
    await waitUntil(isSynced);
  });

  test('is synced with an API server that has no definitions', async () => {
    const server = await scripted();
    server.unserve(DEFINITIONS);
    const { isSynced } = follow(server, { clock: fastTime });
    await waitUntil(isSynced);
  });

  test('says which kinds of policies the API server has not', async () => {
    const server = await scripted(ROUTES, POLICIES);
    const { isSynced, lines } = follow(server);
    await waitUntil(isSynced);
    assert.ok(lines.some((line) => /does not serve PeerAuthentication, RequestAuthentication:/.test(line)));
  });
});
