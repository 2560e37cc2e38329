/**
 * One namespace names hosts, virtual IPs, address ranges and routes of another namespace's Service. Calls of a third
 * namespace, over mutual TLS, still reach the Service. Rules: docs/tenants.md.
 */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { eventually, netnsUnavailable } from '../harness/index.ts';
import { type Document, resource } from './support/config.ts';
import { type IdentityWorld, startIdentityWorld, type Workload } from './support/identity-world.ts';
import { httpOutcome, outcomeOf } from './support/peer-calls.ts';
import { lazy, suiteOwner } from './support/suite.ts';

const skip = (await netnsUnavailable()) ?? false;
const owner = suiteOwner();

interface Shared {
  readonly world: IdentityWorld;
  readonly web: Workload;
  readonly client: Workload;
  readonly evil: Workload;
}
const shared = lazy<Shared>();

const HOST = 'web.shop.svc.cluster.local';
/** A host whose arrival shows that the documents applied with it have arrived. */
const MARKER = 'marker.evil.example';

before(async () => {
  if (skip !== false) return;
  const world = await startIdentityWorld(owner);
  const add = (name: string, namespace: string) => world.addWorkload({ name, namespace, proxied: true });
  const [web, client, evil] = await Promise.all([add('web', 'shop'), add('client', 'other'), add('web', 'evil')]);
  shared.set({ world, web, client, evil });
});

/**
 * A ServiceEntry of the attacker that leads to its own workload, with mutual TLS. Its timestamp is older than all
 * others.
 */
function entry(name: string, hosts: readonly string[], more: Document = {}): Document {
  const { evil } = shared.get();
  const ports = [
    { number: 80, name: 'http', protocol: 'HTTP', targetPort: 8080 },
    { number: 90, name: 'tcp', protocol: 'TCP', targetPort: 9000 },
  ];
  const labels = { 'security.mesh.io/tlsMode': 'mesh' };
  const endpoints = [{ address: evil.netns.address, labels, serviceAccount: evil.name }];
  const spec = { hosts, ports, location: 'MESH_INTERNAL', resolution: 'STATIC', endpoints, ...more };
  const made = resource('ServiceEntry', name, spec, 'evil');
  return { ...made, metadata: { name, namespace: 'evil', creationTimestamp: '2001-01-01T00:00:00Z' } };
}

const ATTACKS: readonly { readonly name: string; readonly documents: () => readonly Document[] }[] = [
  { name: 'a ServiceEntry for the Service’s host', documents: () => [entry('claim', [HOST])] },
  {
    name: 'the host in other spellings',
    documents: () => [entry('claim', ['WEB.shop.svc.Cluster.Local.', 'web.shop'])],
  },
  {
    name: 'wildcards over the host',
    documents: () => [entry('claim', ['*.shop.svc.cluster.local']), entry('claim-all', ['*.svc.cluster.local'])],
  },
  {
    name: 'the Service’s virtual IP, and a range around it, as TCP',
    documents: () => {
      const ports = [80, 90].map((number) => ({ number, name: `tcp-${number}`, protocol: 'TCP' }));
      const { serviceAddress } = shared.get().web;
      const range = `${serviceAddress.split('.').slice(0, 2).join('.')}.0.0/16`;
      return [entry('claim', ['x.evil.example'], { addresses: [serviceAddress, range], ports })];
    },
  },
  {
    name: 'routes for the Service’s host and address',
    documents: () => {
      const destination = { host: 'y.evil.example', port: { number: 80 } };
      const http = [{ route: [{ destination }] }];
      const match = [{ destinationSubnets: [`${shared.get().web.serviceAddress}/32`] }];
      return [
        entry('claim', ['y.evil.example'], { ports: [{ number: 80, name: 'tcp', protocol: 'TCP', targetPort: 8080 }] }),
        resource('VirtualService', 'exact', { hosts: [HOST], http }, 'evil'),
        resource('VirtualService', 'short', { hosts: ['web.shop'], http }, 'evil'),
        resource('VirtualService', 'wide', { hosts: ['*.shop.svc.cluster.local'], http }, 'evil'),
        resource(
          'VirtualService',
          'tcp',
          { hosts: ['y.evil.example'], tcp: [{ match, route: [{ destination }] }] },
          'evil',
        ),
      ];
    },
  },
];

/** Calls of the third namespace's client: by name, short name and address. */
async function outcomes(): Promise<Record<string, string>> {
  const { web, client } = shared.get();
  const named = (host: string) =>
    httpOutcome(client, web, ['-m', '20', '--connect-to', `${host}:80:${web.serviceAddress}:80`, `http://${host}/`]);
  return {
    [HOST]: await named(HOST),
    'web.shop': await named('web.shop'),
    address: await outcomeOf({ from: client, to: web, port: 'http' }),
    tcp: await outcomeOf({ from: client, to: web, port: 'tcp' }),
  };
}

const RIGHT = { [HOST]: '200 mtls', 'web.shop': '200 mtls', address: '200 mtls', tcp: 'ok' };

for (const [index, { name, documents }] of ATTACKS.entries()) {
  test(name, { skip }, async () => {
    const { world, web, client, evil } = shared.get();
    await eventually(async () => assert.deepEqual(await outcomes(), RIGHT), { timeoutMs: 60_000 });
    const marker = `${index}.${MARKER}`;
    await world.config.apply('attack', ...documents(), entry('marker', [marker]));
    await eventually(async () => {
      const url = `http://${marker}/`;
      const args = ['-m', '20', '--connect-to', `${marker}:80:${web.serviceAddress}:80`, url];
      assert.equal(await httpOutcome(client, evil, args), '200 mtls');
    });
    assert.deepEqual(await outcomes(), RIGHT);
  });
}

test('the log and a metric report the names that are not granted', { skip }, async () => {
  const { world } = shared.get();
  await world.config.apply('attack', entry('claim', [HOST]));
  const line = `ServiceEntry/evil/claim: host ${HOST} belongs to Service/shop/web; the entry is ignored for this host`;
  await eventually(async () => {
    assert.ok(world.discoveryOutput().includes(line));
    assert.match(await world.metrics(), /^ctl_name_conflicts 1$/m);
  });
  await world.config.remove('attack');
  await eventually(async () => assert.match(await world.metrics(), /^ctl_name_conflicts 0$/m));
});
