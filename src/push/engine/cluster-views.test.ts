/** Proxies of several clusters: they share everything until services have different addresses in their clusters. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ProxyNode } from '../../core/proxy.ts';
import type { AnyResource } from '../../resources/kinds/types.ts';
import { type Connected, content, type Mesh, ready, service, sidecar } from '../testing/mesh.ts';
import { type NotingGenerator, notingMesh } from '../testing/placements.ts';

const TCP = [{ name: 'tcp', port: 5432 }];
const HTTP = [{ name: 'http', port: 80 }];

function of(cluster: string, name: string, clusterIP: string, ports: readonly object[] = TCP): AnyResource {
  const made = service('shop', name, { clusterIP, ports });
  return { ...made, meta: { ...made.meta, cluster } };
}

const OWN = [
  service('shop', 'db', { clusterIP: '10.96.0.1', ports: TCP }),
  service('shop', 'web', { clusterIP: '10.96.0.2', ports: HTTP }),
];
const EAST_DB = 'Service/shop/db/east';

const proxy = (index: number, clusterId: string): ProxyNode => ({ ...sidecar(`10.5.0.${index}`, 'client'), clusterId });
const listeners = ({ session }: Connected) =>
  content(session).lds.flatMap(([name]) => (/^10\..*_\d+$/.test(name) ? [name] : []));
const outbound = ({ session }: Connected) => session.parts('lds')[0];

async function connected(resources: readonly AnyResource[], ...clusters: readonly string[]) {
  const { mesh, generator } = notingMesh(resources);
  const proxies = clusters.map((cluster, index) => mesh.connect(proxy(index + 1, cluster)));
  await ready(mesh, ...proxies);
  return { mesh, generator, proxies };
}

/** Publishes a change, waits, and returns the units of each type that were generated for outbound parts. */
async function generatedFor(mesh: Mesh, generator: NotingGenerator, sets: readonly AnyResource[], gone: string[] = []) {
  generator.jobs.length = 0;
  mesh.change(sets, gone);
  await mesh.settled();
  return generator.jobs.flatMap(({ view, units }) =>
    view.part === 'outbound' ? [[view.cluster, ...Object.entries(units).map(([type, names]) => [type, ...names])]] : [],
  );
}

describe('proxies of several clusters', () => {
  it('share one view where services have the same addresses in all of them', async () => {
    const same = of('east', 'db', '10.96.0.1');
    const { generator, proxies } = await connected([...OWN, same], 'Orchestrator', 'east', 'unknown', '');
    assert.equal(new Set(proxies.map(outbound)).size, 1);
    assert.deepEqual(generator.asked('lds'), ['all']);
  });

  it('have views of their own only in clusters with other addresses, each with those of its cluster', async () => {
    const resources = [...OWN, of('east', 'db', '10.97.0.1'), of('west', 'db', '10.96.0.1')];
    const { proxies, mesh } = await connected(resources, 'Orchestrator', 'east', 'east', 'west', 'unknown', '');
    const [own, east, alike, ...others] = proxies;
    assert.ok(own !== undefined && east !== undefined && alike !== undefined);
    assert.equal(outbound(alike), outbound(east));
    for (const other of others) assert.equal(outbound(other), outbound(own));
    assert.deepEqual(listeners(own), ['10.96.0.1_5432']);
    assert.deepEqual(listeners(east), ['10.97.0.1_5432']);
    assert.deepEqual(content(east.session).cds, content(own.session).cds);
    assert.equal(mesh.engine.stats().views, 3, 'two outbound parts and one inbound part');
  });

  it('are concerned by a change of addresses in their own cluster alone', async () => {
    const resources = [...OWN, of('east', 'db', '10.97.0.1'), of('west', 'db', '10.98.0.1')];
    const { mesh, generator, proxies } = await connected(resources, 'Orchestrator', 'east', 'west');
    const [own, east, west] = proxies;
    assert.ok(own !== undefined && east !== undefined && west !== undefined);
    assert.deepEqual(await generatedFor(mesh, generator, [of('east', 'db', '10.97.0.7')]), [
      ['east', ['lds', '5432'], ['nds', 'names']],
    ]);
    assert.deepEqual([own, east, west].map(listeners), [['10.96.0.1_5432'], ['10.97.0.7_5432'], ['10.98.0.1_5432']]);
    assert.deepEqual(
      [own, east, west].map(({ pushes }) => pushes.length),
      [0, 1, 0],
    );
    // An HTTP service: its address is a domain of the port's routes.
    assert.deepEqual(await generatedFor(mesh, generator, [of('east', 'web', '10.97.0.8', HTTP)]), [
      ['east', ['lds', '80'], ['rds', '80', 'web.shop.svc.cluster.local:80'], ['nds', 'names']],
    ]);
    const ofOwn = await generatedFor(mesh, generator, [service('shop', 'db', { clusterIP: '10.96.0.9', ports: TCP })]);
    assert.deepEqual(
      ofOwn.map(([cluster]) => cluster).sort(),
      ['east', 'west', undefined],
      'the default address is part of what all proxies read',
    );
    assert.deepEqual(listeners(own), ['10.96.0.9_5432']);
  });

  it('move when the first service gets other addresses in their cluster, and back with the last', async () => {
    const { mesh, proxies } = await connected(OWN, 'Orchestrator', 'east');
    const [own, east] = proxies;
    assert.ok(own !== undefined && east !== undefined);
    assert.equal(outbound(east), outbound(own));
    mesh.change([of('east', 'db', '10.97.0.1')]);
    await mesh.settled();
    assert.deepEqual([own, east].map(listeners), [['10.96.0.1_5432'], ['10.97.0.1_5432']]);
    assert.equal(own.pushes.length, 0);
    mesh.change([], [EAST_DB]);
    await mesh.settled();
    assert.equal(outbound(east), outbound(own));
    assert.equal(own.pushes.length, 0);
  });

  it('reach at an address the Service that has it in their cluster', async () => {
    const resources = [...OWN, of('east', 'cache', '10.96.0.1', [{ name: 'tcp', port: 6379 }])];
    const { proxies } = await connected(resources, 'Orchestrator', 'east');
    assert.deepEqual(proxies.map(listeners), [['10.96.0.1_5432'], ['10.96.0.1_6379']]);
    for (const { session } of proxies) {
      assert.ok(
        content(session).lds.every(([name]) => !name.startsWith('0.0.0.0_5432') && !name.startsWith('0.0.0.0_6')),
      );
    }
  });
});
