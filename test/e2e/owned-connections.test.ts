/**
 * One namespace writes down the addresses of another namespace's Pod and of the API server, or takes all connections of
 * their port. Connections of a third namespace to these addresses still arrive there. Rules: docs/tenants.md.
 */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { eventually, type Namespace, netnsUnavailable } from '../harness/index.ts';
import { type Document, endpoints, resource, service } from './support/config.ts';
import { type IdentityWorld, PORTS, startIdentityWorld, type Workload } from './support/identity-world.ts';
import { httpOutcome, talk } from './support/peer-calls.ts';
import { lazy, suiteOwner } from './support/suite.ts';

const skip = (await netnsUnavailable()) ?? false;
const owner = suiteOwner();

interface Shared {
  readonly world: IdentityWorld;
  readonly web: Workload;
  /** A substitute for an API server. */
  readonly api: Workload;
  readonly thief: Workload;
  /** Of a third namespace, and of the thief's. */
  readonly clients: readonly Workload[];
}
const shared = lazy<Shared>();

/** The port of Pods that no Service has. */
const PORT = PORTS.bytes.container;
/** An address that nobody has. */
const ELSEWHERE = '192.0.2.50';
/** An address that a ServiceEntry of shop has. */
const WRITTEN = '192.0.2.51';
/** A host whose arrival shows that the documents applied with it have arrived. */
const MARKER = 'marker.evil.example';

before(async () => {
  if (skip !== false) return;
  const world = await startIdentityWorld(owner);
  const add = (name: string, namespace: string, proxied: boolean) => world.addWorkload({ name, namespace, proxied });
  const [web, api, thief, ...clients] = await Promise.all([
    add('web', 'shop', true),
    add('api', 'apart', false),
    add('thief', 'evil', false),
    add('client', 'other', true),
    add('client', 'evil', true),
  ]);
  // The API server is not a Pod.
  await world.config.remove(`workload-${api.id}`);
  await world.config.apply(
    'victims',
    endpoints('kubernetes', [api.netns.address], [{ name: 'https', port: PORT }]),
    entry('written', 'written.shop.example', web.netns, { namespace: 'shop', addresses: [WRITTEN] }),
  );
  shared.set({ world, web, api, thief, clients });
});

/** A TCP ServiceEntry that leads to the application of a namespace. */
function entry(
  name: string,
  host: string,
  to: Namespace,
  { namespace = 'evil', ...more }: Document & { readonly namespace?: string } = {},
): Document {
  const ports = [{ number: PORT, name: 'tcp', protocol: 'TCP' }];
  const content = { hosts: [host], ports, resolution: 'STATIC', endpoints: [{ address: to.address }], ...more };
  return createdIn(2001, resource('ServiceEntry', name, content, namespace));
}

function createdIn(year: number, document: Document): Document {
  const metadata = { ...(document.metadata as Document), creationTimestamp: `${year}-01-01T00:00:00Z` };
  return { ...document, metadata };
}

/** A marker of these documents: HTTP requests for its host reach the thief. */
function marker(host: string): Document {
  const ports = [{ number: PORTS.http.service, name: 'http', protocol: 'HTTP', targetPort: PORTS.http.container }];
  return entry('marker', host, shared.get().thief.netns, { ports });
}

/** A headless Service at the victims' addresses, with a route that leads to the thief. */
function headless(port: string): readonly Document[] {
  const { web, api, thief } = shared.get();
  const ports = [{ name: port, port: PORT }];
  const route = [{ destination: { host: 'far.evil.example', port: { number: PORT } } }];
  return [
    // Younger than the ServiceEntry whose address it names.
    createdIn(2002, service('pods', { namespace: 'evil', clusterIP: 'None', ports })),
    endpoints('pods', [web.netns.address, api.netns.address, WRITTEN], ports, 'evil'),
    entry('far', 'far.evil.example', thief.netns, { addresses: ['192.0.2.99'] }),
    resource('VirtualService', 'pods', { hosts: ['pods'], tcp: [{ route }] }, 'evil'),
  ];
}

interface Attack {
  readonly name: string;
  readonly documents: () => readonly Document[];
  /** Who is reached at an address that nobody has. */
  readonly elsewhere?: string;
}

const ATTACKS: readonly Attack[] = [
  { name: 'a headless Service with a route', documents: () => headless('tcp') },
  { name: 'a headless Service without a protocol', documents: () => headless('any') },
  {
    name: 'a ServiceEntry without address',
    documents: () => [entry('port', 'port.evil.example', shared.get().thief.netns)],
    elsewhere: 'ok thief.evil',
  },
  {
    name: 'a ServiceEntry with the addresses, and with a range around them',
    documents: () => {
      const { web, api, thief } = shared.get();
      const addresses = [web, api].flatMap(({ netns: { address } }) => [address, `${address}/30`, `${address}/16`]);
      return [entry('range', 'range.evil.example', thief.netns, { addresses: [...addresses, '192.0.2.48/30'] })];
    },
    elsewhere: 'ok thief.evil',
  },
  {
    name: 'a route for the addresses',
    documents: () => {
      const { web, api, thief } = shared.get();
      const destinationSubnets = [web, api].map(({ netns: { address } }) => `${address}/32`);
      const route = [{ destination: { host: 'port.evil.example', port: { number: PORT } } }];
      const tcp = [{ match: [{ destinationSubnets }], route }];
      return [
        entry('port', 'port.evil.example', thief.netns),
        resource('VirtualService', 'subnets', { hosts: ['port.evil.example'], tcp }, 'evil'),
      ];
    },
    elsewhere: 'ok thief.evil',
  },
];

/** An exchange of bytes that cannot be HTTP. */
function exchange(client: Workload, address: string): Promise<string> {
  return talk(client, address, PORT, 'client', '\u0001 what is said');
}

/** Who answers a client at the victims' addresses. */
async function reached(client: Workload): Promise<Record<string, string>> {
  const { web, api } = shared.get();
  const at = (address: string) => exchange(client, address);
  return { pod: await at(web.netns.address), api: await at(api.netns.address), written: await at(WRITTEN) };
}

const RIGHT = { pod: 'ok web.shop', api: 'ok api.apart', written: 'ok web.shop' };

for (const [index, { name, documents, elsewhere }] of ATTACKS.entries()) {
  test(`${name} takes no connections of a third namespace`, { skip }, async () => {
    const { world, web, thief, clients } = shared.get();
    const [client, own] = clients;
    assert.ok(client !== undefined && own !== undefined);
    await world.config.remove('attack').catch(() => {});
    await eventually(async () => assert.deepEqual(await reached(client), RIGHT), { timeoutMs: 60_000 });
    const host = `${index}.${MARKER}`;
    await world.config.apply('attack', ...documents(), marker(host));
    for (const each of [client, own]) {
      await eventually(async () => {
        const args = ['-m', '20', '--connect-to', `${host}:80:${web.serviceAddress}:80`, `http://${host}/`];
        assert.equal(await httpOutcome(each, thief, args), '200 plain');
      });
    }
    assert.deepEqual(await reached(client), RIGHT);
    if (elsewhere !== undefined) assert.equal(await exchange(client, ELSEWHERE), elsewhere);
  });
}

test('a namespace decides about the connections of its own callers', { skip }, async () => {
  const { world, clients } = shared.get();
  const [client, own] = clients;
  assert.ok(client !== undefined && own !== undefined);
  await world.config.apply('attack', ...headless('tcp'));
  const taken = { pod: 'ok thief.evil', api: 'ok thief.evil', written: 'ok web.shop' };
  await eventually(async () => assert.deepEqual(await reached(own), taken));
  assert.deepEqual(await reached(client), RIGHT);
});
