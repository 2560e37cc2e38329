/** What thousands of streams that say anything of themselves cost the others: views, jobs and caches stay bounded. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ProxyNode } from '../../core/proxy.ts';
import { ASKED_EXTENSIONS } from '../../generate/index.ts';
import { content, endpoints, heldMesh, ready, service, sidecar, virtualService } from '../testing/mesh.ts';
import { MAX_VIEWS_OF_CALLER } from './caller-views.ts';

/** Numbers that look random and are the same each time (a linear congruential generator). */
function numbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff;
    return Math.floor((state / 0x80000000) * below);
  };
}

const STREAMS = 2500;

/** A node that says whatever it likes. */
function claims(pick: (below: number) => number, namespace: string): ProxyNode {
  const word = () => `w${pick(1_000_000)}`;
  const address = () => `10.${pick(256)}.${pick(256)}.${pick(256)}`;
  return {
    ...sidecar(address(), namespace),
    addresses: [address(), address()],
    dnsDomain: `${word()}.svc.${word()}`,
    labels: { app: word(), version: word(), [word()]: word() },
    clusterId: word(),
    network: word(),
    serviceAccount: word(),
    locality: `${word()}/${word()}/${word()}`,
    version: `1.${pick(40)}.${pick(9)}`,
    meshVersion: word(),
  };
}

const SHOP = [service('shop', 'web'), service('other', 'db'), virtualService('shop', 'web', '3s')];

describe('streams with random node metadata', () => {
  it('have one view of each part for metadata that the mesh does not read', async () => {
    const { mesh } = heldMesh(SHOP);
    const pick = numbers(1);
    const proxies = Array.from({ length: STREAMS }, () => mesh.connect(claims(pick, 'shop'), undefined, '192.0.2.1'));
    await Promise.all(proxies.map(({ session }) => session.ready));
    // Two parts, for Envoys that know what replaces deprecated fields and for older ones.
    assert.equal(mesh.engine.stats().views, 2 * 2);
  });

  it('are refused beyond the limit for any namespaces and capabilities, and leave nothing behind', () => {
    const { mesh, generator } = heldMesh(SHOP);
    generator.held = true;
    const pick = numbers(2);
    let refused = 0;
    const proxies = Array.from({ length: STREAMS }, (_, index) => {
      const extensions = ASKED_EXTENSIONS.filter(() => pick(2) === 1);
      try {
        return [mesh.connect({ ...claims(pick, `n${index}`), extensions }, undefined, '192.0.2.1')];
      } catch (error) {
        assert.equal((error as { code?: string }).code, 'resource_exhausted');
        refused++;
        return [];
      }
    }).flat();
    assert.ok(refused > 0);
    assert.equal(mesh.engine.stats().views, MAX_VIEWS_OF_CALLER);
    assert.equal(generator.waiting.length, MAX_VIEWS_OF_CALLER);
    assert.equal([...mesh.engine.sessions()].length, proxies.length);
    for (const { session } of proxies) {
      session.ready.catch(() => {});
      session.close();
    }
    assert.equal(generator.waiting.length, 0);
    assert.ok(mesh.engine.stats().views <= 256);
  });

  it('do not delay another caller’s change: it is generated at that caller’s next turn', async () => {
    const { mesh } = heldMesh(SHOP);
    const honest = mesh.connect(sidecar('10.5.0.1', 'client'), undefined, 'spiffe://cluster.local/ns/client/sa/a');
    await ready(mesh, honest);
    const pick = numbers(3);
    const crowd = Array.from({ length: MAX_VIEWS_OF_CALLER / 2 }, (_, index) =>
      mesh.connect(claims(pick, `n${index}`), undefined, '192.0.2.1'),
    );
    // All of their jobs and the honest proxy's wait now.
    mesh.change([service('shop', 'fresh', { clusterIP: '10.9.0.77' })]);
    while (honest.seen.length === 0) await new Promise((resolve) => setImmediate(resolve));
    assert.ok(content(honest.session).cds.some(([name]) => name.includes('|fresh.shop')));
    const built = [...mesh.engine.views()].filter((view) => view.built).length;
    assert.ok(built < 10, `${built} views were generated first`);
    for (const { session } of crowd) {
      session.ready.catch(() => {});
      session.close();
    }
  });
});

/** Each of these workloads is an endpoint of a Service of its own, in one of ten namespaces. */
const WORKLOADS = Array.from({ length: 1500 }, (_, index) => {
  const [namespace, name, address] = [`n${index % 10}`, `w${index}`, `10.7.${index >> 8}.${index & 255}`];
  return {
    node: sidecar(address, namespace),
    documents: [service(namespace, name), endpoints(namespace, name, address)],
  };
});
const REGISTRY = WORKLOADS.flatMap(({ documents }) => documents);

describe('workloads of the registry behind one address', () => {
  it('are all served, and the limit is left to others', () => {
    const { mesh, generator } = heldMesh(REGISTRY);
    generator.held = true;
    const connect = (node: ProxyNode) => mesh.connect(node, undefined, '192.0.2.1');
    const proxies = WORKLOADS.map(({ node }) => connect(node));
    // An outbound part for each namespace, and an inbound part for each workload.
    assert.equal(mesh.engine.stats().views, 10 + WORKLOADS.length);
    // Updated proxies, each beside the old one.
    const updated = WORKLOADS.map(({ node }) => connect({ ...node, sds: true }));
    assert.equal(mesh.engine.stats().views, 2 * (10 + WORKLOADS.length));
    for (let index = 0; index < 200; index++) connect(sidecar('10.8.0.1', `other${index}`));
    assert.equal([...mesh.engine.sessions()].length, 2 * WORKLOADS.length + 200);
    for (const { session } of [...proxies, ...updated]) {
      session.ready.catch(() => {});
      session.close();
    }
  });

  it('do not cover other claims: views are limited by the registry and by the caller', () => {
    const { mesh, generator } = heldMesh(REGISTRY.slice(0, 2 * 40));
    generator.held = true;
    const pick = numbers(4);
    let refused = 0;
    for (let index = 0; index < 3 * STREAMS; index++) {
      const claimed = WORKLOADS[pick(40)]?.node ?? sidecar('10.7.0.0', 'n0');
      const extensions = ASKED_EXTENSIONS.filter(() => pick(2) === 1);
      const more = [claimed.addresses, WORKLOADS[pick(40)]?.node.addresses ?? []].flat();
      const node = { ...claimed, extensions, addresses: pick(2) === 0 ? more : claimed.addresses };
      try {
        mesh.connect(node, undefined, '192.0.2.1').session.ready.catch(() => {});
      } catch (error) {
        assert.equal((error as { code?: string }).code, 'resource_exhausted');
        refused++;
      }
    }
    assert.ok(refused > 0);
    // Two variants of ten outbound parts and forty inbound parts.
    assert.ok(mesh.engine.stats().views <= MAX_VIEWS_OF_CALLER + 2 * (10 + 40));
  });
});
