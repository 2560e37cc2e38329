import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { PMap } from '../../core/pmap.ts';
import { finish } from '../../core/slices.ts';
import * as fc from '../../core/testing/properties.ts';
import { type AnyResource, keyOf, type Resource } from '../../resources/kinds/types.ts';
import { ofKind } from '../common/tables.ts';
import { emptyMesh, resource } from '../testing/build.ts';
import { applyChanges, replay } from '../testing/steps.ts';
import type { Snapshot } from '../types/types.ts';
import { serviceFor } from './addressing.ts';
import { type AllocatedAddresses, NO_ALLOCATED_ADDRESSES, nextAllocatedAddresses } from './allocated-addresses.ts';

interface Entry {
  readonly name: string;
  readonly namespace?: string;
  readonly hosts: readonly string[];
  readonly created?: number;
  readonly spec?: object;
}

function entry({ name, namespace = 'shop', hosts, created, spec = {} }: Entry): AnyResource {
  const ports = [{ number: 5432, name: 'tcp', protocol: 'TCP' }];
  const content = { hosts, ports, resolution: 'DNS', ...spec };
  return resource('ServiceEntry', `${namespace}/${name}`, content, created === undefined ? {} : { created });
}

/** The addresses of a host for IPv4, IPv6 or dual-stack proxies that capture DNS. */
function addressesOf(
  snapshot: Snapshot,
  host: string,
  allocated: 'ipv4' | 'ipv6' | 'dual' = 'dual',
): readonly string[] {
  const [service] = snapshot.servicesByHost(host);
  assert.ok(service !== undefined, `no service ${host}`);
  return serviceFor(snapshot.memos, service, { allocated }).addresses;
}

describe('allocated addresses', () => {
  it('are given to hosts of ServiceEntries that proxies resolve or have endpoints of, and to no others', () => {
    const fixed = { addresses: ['192.0.2.1'] };
    const snapshot = replay(emptyMesh(), [
      entry({
        name: 'a',
        hosts: ['a.example.com', '*.wild.example.com'],
        spec: { resolution: 'STATIC', endpoints: [] },
      }),
      entry({ name: 'fixed', hosts: ['fixed.example.com'], spec: fixed }),
      entry({ name: 'none', hosts: ['none.example.com'], spec: { resolution: 'NONE' } }),
      entry({
        name: 'udp',
        hosts: ['udp.example.com'],
        spec: { ports: [{ number: 53, name: 'udp', protocol: 'UDP' }] },
      }),
    ]);
    const [ipv4 = '', ipv6 = '', ...more] = addressesOf(snapshot, 'a.example.com');
    assert.match(ipv4, /^240\.240\.\d+\.\d+$/);
    assert.match(ipv6, /^2001:2::f0f0:[0-9a-f]+$/);
    assert.deepEqual(more, []);
    assert.deepEqual(addressesOf(snapshot, 'a.example.com', 'ipv4'), [ipv4]);
    assert.deepEqual(addressesOf(snapshot, 'a.example.com', 'ipv6'), [ipv6]);
    assert.deepEqual(addressesOf(snapshot, 'fixed.example.com'), ['192.0.2.1']);
    for (const host of ['*.wild.example.com', 'none.example.com', 'udp.example.com'])
      assert.deepEqual(addressesOf(snapshot, host), [], host);
    // Other proxies see no allocated addresses.
    assert.deepEqual(snapshot.servicesByHost('a.example.com')[0]?.addresses, []);
  });

  it('depend on the host alone: not on its namespace, document or ports', () => {
    const address = (one: Entry) => addressesOf(replay(emptyMesh(), [entry(one)]), 'db.example.com');
    const known = address({ name: 'a', hosts: ['db.example.com'] });
    assert.deepEqual(known, ['240.240.146.116', '2001:2::f0f0:9274']);
    assert.deepEqual(address({ name: 'b', namespace: 'other', hosts: ['x.example.com', 'DB.example.com'] }), known);
  });

  it('of a host do not change when a thousand younger ones come and go', () => {
    const hosts = Array.from({ length: 1000 }, (_, index) => `host-${index}.example.com`);
    const first = replay(emptyMesh(), [entry({ name: 'first', hosts: ['db.example.com'], created: 1 })]);
    const others = entry({ name: 'others', hosts, created: 2 });
    const full = replay(first, [others]);
    assert.deepEqual(addressesOf(full, 'db.example.com'), addressesOf(first, 'db.example.com'));
    const all = ['db.example.com', ...hosts].map((host) => addressesOf(full, host).join());
    assert.equal(new Set(all).size, all.length, 'each host has its own');
    const bare = applyChanges(full, { changes: [{ key: keyOf(others), before: others, after: undefined }] }).snapshot;
    assert.deepEqual(addressesOf(bare, 'db.example.com'), addressesOf(first, 'db.example.com'));
  });

  it('are taken from no host by a younger ServiceEntry that has them written', () => {
    const db = entry({ name: 'db', hosts: ['db.example.com'], created: 1 });
    const [taken = ''] = addressesOf(replay(emptyMesh(), [db]), 'db.example.com');
    const addresses = [taken, '192.0.2.7'];
    const pinned = entry({ name: 'pinned', hosts: ['pinned.example.com'], created: 2, spec: { addresses } });
    for (const order of [
      [db, pinned],
      [pinned, db],
    ]) {
      let snapshot = emptyMesh();
      for (const each of order) snapshot = replay(snapshot, [each]);
      assert.deepEqual(addressesOf(snapshot, 'pinned.example.com'), ['192.0.2.7']);
      assert.deepEqual(snapshot.servicesByHost('pinned.example.com')[0]?.addresses, [taken, '192.0.2.7']);
      assert.match(snapshot.nameConflicts()[0]?.message ?? '', /is allocated to host db\.example\.com/);
      const alone = applyChanges(snapshot, { changes: [{ key: keyOf(db), before: db, after: undefined }] }).snapshot;
      assert.deepEqual(addressesOf(alone, 'pinned.example.com'), [taken, '192.0.2.7']);
    }
  });
});

it('a written address stays with its older hosts when a host of another namespace has a name that leads to it', () => {
  const intruder = entry({ name: 'intruder', namespace: 'other', hosts: ['db.example.com'], created: 2 });
  const [ipv4 = '', ipv6 = ''] = addressesOf(replay(emptyMesh(), [intruder]), 'db.example.com');
  for (const written of [[ipv4], [ipv6], [`${ipv4}/32`]]) {
    const hosts = ['pinned.example.com', 'also.example.com'];
    const pinned = entry({ name: 'pinned', hosts, created: 1, spec: { addresses: written } });
    const before = replay(emptyMesh(), [pinned]);
    const after = replay(before, [intruder]);
    for (const host of hosts) assert.deepEqual(addressesOf(after, host), addressesOf(before, host));
    assert.deepEqual(after.nameConflicts(), []);
    const moved = addressesOf(after, 'db.example.com');
    assert.equal(moved.length, 2);
    for (const address of [ipv4, ipv6]) assert.ok(!moved.includes(address), `${moved}`);
    const alone = applyChanges(after, { changes: [{ key: keyOf(pinned), before: pinned, after: undefined }] }).snapshot;
    assert.deepEqual(addressesOf(alone, 'db.example.com'), [ipv4, ipv6]);
  }
  const ranges = entry({ name: 'r', hosts: ['range.example.com'], created: 1, spec: { addresses: [`${ipv4}/16`] } });
  assert.deepEqual(addressesOf(replay(emptyMesh(), [ranges, intruder]), 'db.example.com'), [ipv4, ipv6]);
});

it('no allocated address is one of a Service or Pod; documents of endpoints take none', () => {
  const db = entry({ name: 'db', hosts: ['db.example.com'], created: 1 });
  const before = replay(emptyMesh(), [db]);
  const [ipv4 = '', ipv6 = ''] = addressesOf(before, 'db.example.com');
  const clusterIp = { clusterIP: ipv4, ports: [{ name: 'tcp', port: 5432 }] };
  const pod = { spec: {}, status: { podIP: ipv4, podIPs: [{ ip: ipv4 }], phase: 'Running' } };
  for (const owner of [resource('Service', 'other/api', { spec: clusterIp }), resource('Pod', 'other/api', pod)]) {
    const after = replay(before, [owner]);
    assert.deepEqual(addressesOf(after, 'db.example.com'), [ipv6], owner.kind);
    assert.match(after.nameConflicts()[0]?.message ?? '', new RegExp(`${ipv4}: it belongs to ${owner.kind}/`));
    const alone = applyChanges(after, { changes: [{ key: keyOf(owner), before: owner, after: undefined }] }).snapshot;
    assert.deepEqual(addressesOf(alone, 'db.example.com'), [ipv4, ipv6]);
  }
  const named = resource('Endpoints', 'other/api', { subsets: [{ addresses: [{ ip: ipv4 }], ports: [{ port: 80 }] }] });
  assert.deepEqual(addressesOf(replay(before, [named]), 'db.example.com'), [ipv4, ipv6]);
});

/** Few addresses, so that hosts collide. */
const FEW = 7;
const TRIES = 5;
const fewAddresses = (host: string, index: number) =>
  (host.charCodeAt(0) * 5 + index * (1 + (host.charCodeAt(1) % 6))) % FEW;

/** The addresses that a host tries; `=3` stands for the written address of slot 3. */
const triedBy = (host: string): readonly number[] =>
  host.startsWith('=')
    ? [Number(host.slice(1))]
    : Array.from({ length: TRIES }, (_, index) => fewAddresses(host, index));

/** The oldest host chooses first. */
function chosen(hosts: ReadonlyMap<string, number | undefined>): Map<string, number | undefined> {
  const order = [...hosts].sort(([a, x = -1], [b, y = -1]) => x - y || (a < b ? -1 : 1));
  const taken = new Set<number>();
  return new Map(
    order.map(([host]) => {
      const free = triedBy(host).find((slot) => !taken.has(slot));
      if (free !== undefined) taken.add(free);
      return [host, free];
    }),
  );
}

const step = fc.record({
  host: fc.constantFrom('aa', 'ab', 'ba', 'bc', 'ca', 'cd', 'da', 'de', 'ea', '=0', '=3', '=5'),
  created: fc.option(fc.nat(5), { nil: undefined }),
  remove: fc.boolean(),
});

it('allocated addresses are those that hosts choose by age, whatever the order of their arrival', () => {
  fc.assert(
    fc.property(fc.array(fc.array(step, { maxLength: 4 }), { maxLength: 12 }), (batches) => {
      let state: AllocatedAddresses = NO_ALLOCATED_ADDRESSES;
      let entries = PMap.empty<Resource<'ServiceEntry'>>();
      for (const batch of batches) {
        const before = entries;
        const keys = new Set<string>();
        for (const { host, created, remove } of batch) {
          const spec = host.startsWith('=') ? { addresses: [`240.240.0.${1 + Number(host.slice(1))}`] } : {};
          const made = entry({ name: host, hosts: [host], spec, ...(created !== undefined && { created }) });
          entries = entries.with([[keyOf(made), remove ? undefined : ofKind(made, 'ServiceEntry')]]);
          keys.add(keyOf(made));
        }
        const side = (table: typeof entries, key: string) => table.get(key) as AnyResource | undefined;
        const changed = [...keys].map((key) => ({ key, before: side(before, key), after: side(entries, key) }));
        state = finish(nextAllocatedAddresses(state, changed, entries, { tries: TRIES, slotOf: fewAddresses }));
        const wanted = new Map([...entries.values()].map(({ meta }) => [meta.name, meta.created]));
        const has = [...state.hosts.sorted()].map(([host, { tries, found }]) => {
          return [host, found ? triedBy(host)[tries - 1] : undefined] as const;
        });
        assert.deepEqual(new Map(has), new Map([...chosen(wanted)].sort(([a], [b]) => (a < b ? -1 : 1))));
        for (const [slot, [first]] of state.slots.sorted())
          assert.equal(has.find(([, own]) => String(own) === slot)?.[0], first);
      }
    }),
    { numRuns: 300 },
  );
});
