/**
 * DNS of a workload whose queries are captured for Envoy (MESH_META_DNS_CAPTURE), and allocated addresses, in network
 * namespaces. A test server replaces the name server of /etc/resolv.conf.
 */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import {
  type DnsServerIn,
  eventually,
  type Namespace,
  netnsUnavailable,
  queryDns,
  startDnsIn,
  writeResolvConf,
} from '../harness/index.ts';
import { type Document, endpoints, resource, service } from './support/config.ts';
import { type IdentityWorld, PORTS, startIdentityWorld, type Workload } from './support/identity-world.ts';
import { lazy, suiteOwner } from './support/suite.ts';

const skip = (await netnsUnavailable()) ?? false;
const owner = suiteOwner();

const OUTSIDE = { 'outside.example': ['203.0.113.1', '2001:db8::71'] };
const WILD = {
  hosts: ['*.wild.example'],
  addresses: ['192.0.2.7'],
  ports: [{ number: 443, name: 'tls', protocol: 'TLS' }],
};
const WEB6 = 'fd00:96::1';

interface World {
  readonly mesh: IdentityWorld;
  readonly upstream: Namespace;
  readonly server: DnsServerIn;
  readonly client: Workload;
  readonly web: Workload;
}
const shared = lazy<World>();
const world = (): World => shared.get();

/** A database without an address: TCP on a port that another one has as well. */
function database(name: string, backend: Workload): Document {
  const spec = {
    hosts: [`${name}.db.example`],
    location: 'MESH_EXTERNAL',
    resolution: 'STATIC',
    ports: [{ number: 5432, name: 'tcp', protocol: 'TCP', targetPort: PORTS.tcp.container }],
    endpoints: [{ address: backend.netns.address }],
  };
  return resource('ServiceEntry', name, spec, 'shop');
}

before(async () => {
  if (skip !== false) return;
  const mesh = await startIdentityWorld(owner);
  const upstream = await mesh.network.addNamespace('dns');
  const server = await startDnsIn(owner, upstream, {
    label: 'upstream',
    addresses: [upstream.address, upstream.address6],
    names: OUTSIDE,
  });
  const search = 'search shop.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n';
  const prepare = (netns: Namespace) => writeResolvConf(owner, netns, `nameserver ${upstream.address}\n${search}`);
  const web = await mesh.addWorkload({ name: 'web', namespace: 'shop', proxied: true, prepare });
  const env = { MESH_META_DNS_CAPTURE: 'true' };
  const client = await mesh.addWorkload({ name: 'client', namespace: 'shop', proxied: true, prepare, env });
  const plain = await mesh.addWorkload({ name: 'plain', namespace: 'shop', proxied: false });
  await mesh.config.apply(
    'names',
    database('orders', web),
    database('users', plain),
    resource('ServiceEntry', 'wild', WILD, 'shop'),
    service('web6', { namespace: 'shop', clusterIP: WEB6, ports: [{ name: 'http', port: 80 }] }),
    service('pods', { namespace: 'shop', clusterIP: 'None', ports: [{ name: 'tcp', port: 9000 }] }),
    endpoints('pods', ['198.18.0.200', '198.18.0.201'], [{ name: 'tcp', port: 9000 }], 'shop'),
  );
  shared.set({ mesh, upstream, server, client, web });
});

const lines = (text: string): readonly string[] => text.split('\n').filter((line) => line !== '');
const inClient = (...argv: readonly string[]) => world().client.netns.run(...argv);

async function getent(name: string, database = 'ahostsv4'): Promise<readonly string[]> {
  const found = lines(await inClient('getent', database, name)).map((line) => line.split(/\s+/)[0] ?? '');
  return [...new Set(found)].sort();
}

describe('DNS captured for Envoy', { skip }, () => {
  test('glibc resolves services by short names, headless services and IPv6', async () => {
    const { web } = world();
    await eventually(async () => assert.deepEqual(await getent('web6', 'ahostsv6'), [WEB6]));
    for (const name of ['web', 'web.shop', 'web.shop.svc', 'web.shop.svc.cluster.local'])
      assert.deepEqual(await getent(name), [web.serviceAddress], name);
    assert.deepEqual(await getent('pods'), ['198.18.0.200', '198.18.0.201']);
  });

  test('names outside come from the name server of resolv.conf', async () => {
    assert.deepEqual(await getent('outside.example'), ['203.0.113.1']);
    assert.deepEqual(await getent('outside.example', 'ahostsv6'), ['2001:db8::71']);
    await assert.rejects(getent('nothing.example'), { code: 2 });
    assert.ok(!world().server.queries().includes('udp web.shop.svc.cluster.local A'));
  });

  test('TCP services on one port without addresses are called by their names', async () => {
    const addresses = [await getent('orders.db.example'), await getent('users.db.example')].flat();
    assert.equal(new Set(addresses).size, 2);
    for (const address of addresses) assert.match(address, /^240\.240\.\d+\.\d+$/);
    const greets = async (host: string) =>
      lines(await inClient('timeout', '5', 'bash', '-c', `exec 3<>/dev/tcp/${host}/5432; head -n 1 <&3`))[0];
    assert.equal(await greets('orders.db.example'), 'web.shop');
    assert.equal(await greets('users.db.example'), 'plain.shop');
  });

  test('a name that changes is answered with its new address', async () => {
    const at = (clusterIP: string) =>
      service('moving', { namespace: 'shop', clusterIP, ports: [{ name: 'http', port: 80 }] });
    for (const address of ['10.96.7.1', '10.96.7.2']) {
      await world().mesh.config.apply('moving', at(address));
      await eventually(async () => assert.deepEqual(await getent('moving'), [address]));
    }
  });

  test('a wildcard has the names below it, and not its own', async () => {
    const query = async (name: string) => {
      const { client, upstream } = world();
      const { code, addresses } = await queryDns(client.netns, { server: upstream.address, name, protocol: 'udp' });
      return [code, ...addresses];
    };
    for (const name of ['a.wild.example', 'b.a.wild.example'])
      assert.deepEqual(await query(name), ['NOERROR', '192.0.2.7'], name);
    assert.deepEqual(await query('wild.example'), ['NXDOMAIN']);
  });
});
