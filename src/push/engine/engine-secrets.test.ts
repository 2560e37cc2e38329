/** Who goes on getting secrets while the views of gateways change. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { content, heldMesh, meshResource, parse, ready, sidecar, turns } from '../testing/mesh.ts';

describe('engine: a gateway that has lost the right to its secrets', () => {
  const certs = new URL('../../../test/golden-harness/certs/', import.meta.url);
  const [chain, key] = ['tls.crt', 'tls.key'].map((name) => readFileSync(new URL(name, certs), 'utf8'));
  const secret = (certificate = '') =>
    parse({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'c', namespace: 'edge' },
      stringData: { 'tls.crt': certificate, 'tls.key': key },
    });
  const pod = (serviceAccountName: string) =>
    parse({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: serviceAccountName, namespace: 'edge', labels: { app: 'gw' } },
      spec: { serviceAccountName },
    });
  const tls = { mode: 'SIMPLE', credentialName: 'c' };
  const gateway = meshResource('Gateway', 'edge', 'gw', {
    selector: { app: 'gw' },
    servers: [{ port: { number: 443, name: 'https', protocol: 'HTTPS' }, hosts: ['*'], tls }],
  });
  const router = (address: string, serviceAccount: string) => ({
    ...sidecar(address, 'edge'),
    type: 'router' as const,
    labels: { app: 'gw' },
    identity: { trustDomain: 'cluster.local', namespace: 'edge', serviceAccount },
  });

  it('gets none of its old view’s new secrets, neither before it has left that view nor when it cannot leave', async () => {
    const { mesh, generator } = heldMesh();
    mesh.change([gateway, secret(chain), pod('one'), pod('two')]);
    const [stays, leaves] = [mesh.connect(router('10.5.0.1', 'one')), mesh.connect(router('10.5.0.2', 'two'))];
    await ready(mesh, stays, leaves);
    const before = content(stays.session).sds;
    assert.equal(before.length, 1);
    assert.deepEqual(content(leaves.session).sds, before);
    const [old] = [...mesh.engine.views()].filter((view) => view.sessions.size === 2).map(({ key: name }) => name);
    generator.held = true;
    mesh.change([secret(`${chain}${chain}`)], ['Pod/edge/two']);
    await turns();
    generator.release(old ?? 'none');
    await turns();
    const after = content(stays.session).sds;
    assert.notDeepEqual(after, before);
    assert.deepEqual(content(leaves.session).sds, before);
    generator.release('', new Error('cannot be generated'));
    await turns();
    assert.deepEqual(content(leaves.session).sds, before);
    generator.held = false;
    mesh.retry();
    await mesh.settled();
    assert.deepEqual(content(leaves.session).sds, []);
    assert.deepEqual(content(stays.session).sds, after);
  });
});
