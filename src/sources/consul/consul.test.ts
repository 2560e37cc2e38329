/** The source for Consul against a stand-in for Consul's HTTP API, on a fake clock. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { followRegistry, instance } from './testing/followed-registry.ts';
import type { Fault } from './testing/in-memory-call.ts';
import { StandInRegistry } from './testing/stand-in-registry.ts';

function registryOf(...services: readonly string[]): StandInRegistry {
  const registry = new StandInRegistry();
  registry.register(
    ...services.flatMap((service, at) => [1, 2].map((n) => instance(service, `${service}-${2 * at + n}`))),
  );
  return registry;
}

describe('a stand-in for Consul with two services', () => {
  test('is listed once, and then followed: registrations, health, maintenance, removal', async () => {
    const registry = registryOf('web', 'db');
    const { source, clock, endpoints, isSynced, events } = followRegistry(registry);
    await clock.advance(10);
    assert.ok(isSynced());
    assert.deepEqual(endpoints('web'), ['10.0.0.1', '10.0.0.2']);
    const listed = events.length;
    await clock.advance(300_000);
    assert.equal(events.length, listed, 'blocking queries that return without a change send nothing');

    registry.setStatus('node-1', 'web-1', 'critical');
    await clock.advance(50);
    assert.deepEqual(endpoints('web'), ['10.0.0.1!', '10.0.0.2'], 'it stays an endpoint, so that policies select it');
    registry.setStatus('node-1', 'web-1', 'warning');
    await clock.advance(100);
    assert.deepEqual(endpoints('web'), ['10.0.0.1', '10.0.0.2'], 'a warning stays in use');
    registry.setNodeStatus('node-2', 'critical');
    await clock.advance(50);
    assert.deepEqual(endpoints('web'), ['10.0.0.1', '10.0.0.2!'], 'the check of a node concerns all its services');
    registry.setNodeStatus('node-2', 'passing');
    await clock.advance(100);
    assert.deepEqual(endpoints('web'), ['10.0.0.1', '10.0.0.2']);

    registry.register(instance('web', 'web-9'), instance('new', 'new-8'));
    await clock.advance(500);
    assert.deepEqual([endpoints('web').length, endpoints('new')], [3, ['10.0.0.8']]);
    registry.deregister('node-0', 'web-9');
    await clock.advance(500);
    assert.deepEqual(endpoints('web'), ['10.0.0.1', '10.0.0.2']);
    registry.deregister('node-2', 'new-8');
    await clock.advance(500);
    assert.deepEqual(endpoints('new'), []);
    await source.close();
  });

  test('an instance that is critical when it is removed is not used in between', async () => {
    const registry = registryOf('web');
    const { source, clock, endpoints, events } = followRegistry(registry, { delayMs: () => 5 });
    await clock.advance(100);
    registry.setStatus('node-1', 'web-1', 'critical');
    await clock.advance(100);
    const before = events.length;
    registry.deregister('node-1', 'web-1');
    await clock.advance(1000);
    assert.deepEqual(endpoints('web'), ['10.0.0.2']);
    assert.equal(events.length, before + 1);
    await source.close();
  });

  test('what checks do not show is found by the sweep: metadata, and instances without checks', async () => {
    const registry = registryOf('web', 'db');
    const { source, clock, endpoints, resources } = followRegistry(registry);
    await clock.advance(1000);
    registry.register(instance('web', 'web-1', { meta: { protocol: 'http', 'service-account': 'web' } }));
    await clock.advance(1000);
    const entry = resources.get('ServiceEntry/default/web-8080.service.consul');
    assert.match(JSON.stringify(entry?.content), /"serviceAccount":"web"/);
    registry.register({
      node: 'external',
      nodeAddress: '10.9.0.1',
      id: 'db-x',
      service: 'db',
      address: '',
      port: 8080,
    });
    await clock.advance(1000);
    assert.deepEqual(endpoints('db').toSorted(), ['10.0.0.3', '10.0.0.4', '10.9.0.1']);
    await source.close();
  });
});

test('changes that cannot be applied are sent again, and hold up no later ones', async () => {
  const registry = registryOf('web', 'db');
  let failures = 2;
  const onSent = (): void => {
    if (failures-- > 0) throw new Error('a\nbug');
  };
  const { source, clock, endpoints, isSynced, lines } = followRegistry(registry, { onSent });
  await clock.advance(10);
  assert.equal(isSynced(), false);
  await clock.advance(5000);
  assert.deepEqual([isSynced(), endpoints('web'), endpoints('db').length], [true, ['10.0.0.1', '10.0.0.2'], 2]);
  failures = 1;
  registry.setStatus('node-1', 'web-1', 'critical');
  await clock.advance(50);
  registry.setStatus('node-2', 'web-2', 'critical');
  await clock.advance(5000);
  assert.deepEqual(endpoints('web'), ['10.0.0.1!', '10.0.0.2!']);
  assert.deepEqual(
    lines.filter((line) => line.includes('bug')),
    Array.from({ length: 2 }, () => 'cannot apply changes of Consul: a bug; trying again'),
  );
  await source.close();
});

test('a service whose documents cannot be made is tried again, and holds up no other', async () => {
  const registry = registryOf('web', 'db');
  let failures = 0;
  const options = {
    get passingOnly(): boolean {
      if (failures-- > 0) throw new Error('a bug');
      return false;
    },
  };
  const { source, clock, endpoints, lines } = followRegistry(registry, options);
  await clock.advance(10);
  failures = 1;
  registry.setNodeStatus('node-1', 'critical');
  await clock.advance(50);
  const used = (): number => ['web', 'db'].flatMap(endpoints).filter((endpoint) => !endpoint.endsWith('!')).length;
  const between = used();
  await clock.advance(5000);
  const line = 'cannot apply changes of Consul: a bug; trying again';
  assert.deepEqual([between, used(), lines.filter((each) => each === line).length], [3, 2, 1]);
  await source.close();
});

describe('requests to a stand-in for Consul', () => {
  test('three wait, one reads all checks, and those about services are bounded', async () => {
    const registry = new StandInRegistry();
    for (let n = 0; n < 200; n++) registry.register(instance(`s${n}`, `s${n}`));
    const { source, clock, isSynced, open, asked } = followRegistry(registry, { delayMs: () => 10 });
    await clock.advance(3000);
    assert.ok(isSynced());
    assert.ok(open.most <= 4 + 4, `${open.most} at once`);
    const before = asked.length;
    registry.setStatus('node-1', 's1', 'critical');
    await clock.advance(1000);
    assert.ok(asked.length - before <= 2, 'a change of health needs no request about a service');
    await source.close();
  });

  test('they carry namespace, partition, datacenter and consistency', async () => {
    const registry = registryOf('web');
    const settings = {
      consulNamespace: 'team',
      partition: 'east',
      datacenters: ['dc1'],
      consistency: 'stale' as const,
    };
    const { source, clock, asked } = followRegistry(registry, settings);
    await clock.advance(100);
    for (const path of asked) assert.match(path, /dc=dc1&(index=\d+&wait=\d+ms&)?ns=team&partition=east&stale=true/);
    await source.close();
  });
});

describe('a stand-in for Consul that fails', () => {
  const faults: readonly Fault[] = ['error 500', 'error 429', 'closed', 'half', 'no index', 'no leader', 'silent'];
  for (const kind of faults) {
    test(`${kind}: at start the source is not synced; later everything stays, and changes come when it is back`, async () => {
      const registry = registryOf('web');
      let fault: Fault | undefined = kind;
      const { source, clock, endpoints, isSynced, events, lines } = followRegistry(registry, { fault: () => fault });
      await clock.advance(60_000);
      assert.deepEqual([isSynced(), events.length, source.health().ok], [false, 0, false]);
      fault = undefined;
      await clock.advance(60_000);
      assert.deepEqual([isSynced(), source.health()], [true, { ok: true }]);
      fault = kind;
      registry.setStatus('node-1', 'web-1', 'critical');
      registry.register(instance('late', 'late-7'));
      await clock.advance(600_000);
      assert.deepEqual(endpoints('web'), ['10.0.0.1', '10.0.0.2']);
      const health = source.health();
      assert.ok(!health.ok && health.since !== undefined, 'its age is known');
      assert.ok(lines.some((line) => line.includes('what was read before stays in force')));
      fault = undefined;
      await clock.advance(60_000);
      assert.deepEqual([endpoints('web'), endpoints('late')], [['10.0.0.1!', '10.0.0.2'], ['10.0.0.7']]);
      assert.deepEqual(source.health(), { ok: true });
      await source.close();
    });
  }

  test('the next server is asked', async () => {
    const registry = registryOf('web');
    const servers = [new URL('http://dead:8500'), new URL('http://alive:8500')];
    const { source, clock, isSynced } = followRegistry(registry, { servers, fault: () => undefined });
    await clock.advance(10_000);
    assert.ok(isSynced());
    await source.close();
  });
});

describe('a stand-in for Consul that lies', () => {
  test('one that suddenly has no services removes nothing for a time', async () => {
    const registry = registryOf('a', 'b', 'c', 'd', 'e', 'f');
    let fault: Fault | undefined;
    const { source, clock, endpoints, lines } = followRegistry(registry, { fault: () => fault });
    await clock.advance(1000);
    fault = 'empty';
    registry.register(instance('more', 'more-30'));
    await clock.advance(600_000);
    assert.equal(endpoints('a').length, 2);
    assert.ok(
      lines.some((line) => /no longer has 7 services.* stay in force for 15 minutes/.test(line)),
      lines.join(),
    );
    fault = undefined;
    await clock.advance(120_000);
    assert.equal(endpoints('more').length, 1);
    assert.ok(lines.some((line) => line.includes('no missing services any more')));
    await source.close();
  });

  test('one that restarts without its state keeps services, instances and their health until the time is over', async () => {
    const registry = registryOf('web', 'db');
    const { source, clock, endpoints } = followRegistry(registry);
    await clock.advance(1000);
    for (let n = 0; n < 5; n++) registry.setStatus('node-1', 'web-1', n % 2 === 0 ? 'critical' : 'passing');
    await clock.advance(1000);
    assert.deepEqual(endpoints('web'), ['10.0.0.1!', '10.0.0.2']);
    registry.restartEmpty();
    await clock.advance(60_000);
    assert.deepEqual([endpoints('web'), endpoints('db').length], [['10.0.0.1!', '10.0.0.2'], 2]);
    registry.register(instance('web', 'web-2'), instance('web', 'web-5'));
    await clock.advance(60_000);
    assert.deepEqual(
      endpoints('web').toSorted(),
      ['10.0.0.1!', '10.0.0.2', '10.0.0.5'],
      'agents register again one by one',
    );
    await clock.advance(900_000);
    assert.deepEqual([endpoints('web').toSorted(), endpoints('db')], [['10.0.0.2', '10.0.0.5'], []]);
    await source.close();
  });

  test('an index that goes backwards with the same state changes nothing, and later changes are seen', async () => {
    const registry = registryOf('web', 'db');
    for (let n = 0; n < 20; n++) registry.register(instance('web', 'web-1'));
    const { source, clock, endpoints, events } = followRegistry(registry);
    await clock.advance(1000);
    const before = events.length;
    registry.rewind();
    await clock.advance(60_000);
    assert.equal(events.length, before);
    registry.setStatus('node-1', 'web-1', 'critical');
    registry.deregister('node-0', 'db-3');
    await clock.advance(60_000);
    assert.deepEqual([endpoints('web'), endpoints('db')], [['10.0.0.1!', '10.0.0.2'], ['10.0.0.4']]);
    await source.close();
  });
});

describe('a service of a stand-in for Consul that cannot be read', () => {
  for (const kind of ['error 500', 'half', 'silent'] as const) {
    test(`${kind}: is a problem of its own; the source is synced, and others and their servers stay in use`, async () => {
      const registry = registryOf('web', 'db', 'bad');
      let isBad = true;
      const fault = (path: string): Fault | undefined => (isBad && path.endsWith('/bad') ? kind : undefined);
      const servers = [new URL('http://one:8500'), new URL('http://two:8500')];
      const { source, clock, endpoints, isSynced, problems, asked, ...followed } = followRegistry(registry, {
        fault,
        servers,
        timeoutMs: 1000,
      });
      await clock.advance(10_000);
      assert.ok(isSynced());
      assert.deepEqual(source.health(), { ok: true });
      assert.notEqual(problems.get('service bad')?.message, undefined);
      assert.deepEqual([endpoints('web').length, endpoints('bad').length], [2, 0]);
      const before = asked.length;
      const server = followed.hosts.at(-1);
      for (let n = 0; n < 20; n++) {
        registry.register(instance('web', 'web-1', { tags: [`version|v${n}`] }));
        await clock.advance(1000);
      }
      assert.deepEqual(new Set(followed.hosts.slice(before)), new Set([server]));
      const ofBad = asked.slice(before).filter((path) => path.includes('/bad?') || path.endsWith('/bad'));
      assert.ok(ofBad.length <= 4, `${ofBad.length} requests about it in 20 s`);
      isBad = false;
      await clock.advance(60_000);
      assert.deepEqual([endpoints('bad').length, problems.size], [2, 0]);
      await source.close();
    });
  }

  test('it does not delay changes of others when nothing else is read meanwhile', async () => {
    const registry = registryOf('web', 'bad');
    let isBad = false;
    const { source, clock, endpoints, problems } = followRegistry(registry, {
      fault: (path) => (isBad && path.endsWith('/bad') ? 'error 500' : undefined),
    });
    await clock.advance(1000);
    isBad = true;
    registry.register(instance('bad', 'bad-9'));
    await clock.advance(30_000);
    registry.register(instance('web', 'web-9'));
    await clock.advance(1000);
    assert.deepEqual([endpoints('web').length, endpoints('bad').length], [3, 2]);
    assert.match(problems.get('service bad')?.message ?? '', /HTTP 500/);
    await source.close();
  });
});

describe('names of services that differ in case only', () => {
  test('the one in lower case is read, in whatever order they come, and the other is a problem', async () => {
    const registry = registryOf('Web', 'db');
    const { source, clock, endpoints, problems, events, resources } = followRegistry(registry);
    await clock.advance(1000);
    assert.deepEqual([endpoints('web'), problems.size], [['10.0.0.1', '10.0.0.2'], 0]);
    registry.register(instance('web', 'web-7'));
    await clock.advance(1000);
    assert.deepEqual(endpoints('web'), ['10.0.0.7']);
    assert.match(problems.get('service Web')?.message ?? '', /differ in more than case; "web" is read instead/);
    registry.deregister('node-1', 'web-7');
    await clock.advance(2000);
    assert.deepEqual([endpoints('web'), problems.size], [['10.0.0.1', '10.0.0.2'], 0]);
    assert.equal(
      events.filter(({ type }) => type === 'delete').length,
      0,
      'the document in force is never deleted in between',
    );
    registry.setStatus('node-1', 'Web-1', 'critical');
    await clock.advance(1000);
    assert.deepEqual(endpoints('web'), ['10.0.0.1!', '10.0.0.2']);
    assert.ok(resources.has('ServiceEntry/default/web-8080.service.consul'));
    await source.close();
  });
});

describe('bounds', () => {
  test('instances with names that are too long are a problem of their service only', async () => {
    const registry = registryOf('web', 'db');
    registry.register(instance('web', 'web-9', { node: 'n'.repeat(600) }));
    const { source, clock, endpoints, problems } = followRegistry(registry);
    await clock.advance(1000);
    assert.deepEqual([endpoints('web').length, endpoints('db').length], [2, 2]);
    assert.match(problems.get('service web')?.message ?? '', /at most 512 characters; 1 instances are not used/);
    await source.close();
  });

  test('names that are no labels, and services beyond the limit, are problems of themselves only', async () => {
    const registry = registryOf('a', 'b');
    const hostile = ['web.shop.svc.cluster.local', 'x'.repeat(64), '../../etc', 'A', '*'];
    registry.register(...hostile.map((service, n) => instance(service, `h-${20 + n}`)));
    const { source, clock, resources, problems, isSynced } = followRegistry(registry, { maxServices: 2 });
    await clock.advance(1000);
    assert.ok(isSynced());
    const hosts = [...resources.keys()].map((key) => key.split('/').at(-1));
    assert.deepEqual(
      hosts.toSorted(),
      ['a-8080.service.consul', 'consul-8300.service.consul'].filter((name) => hosts.includes(name)),
    );
    assert.ok(problems.has('service A'));
    assert.match(
      problems.get('services')?.message ?? '',
      /DNS labels, got 4 others such as "web.*CTL_EXTREGISTRY_MAX_SERVICES/,
    );
    await source.close();
  });

  test('a service beyond the number of instances keeps those that it had', async () => {
    const registry = registryOf('a', 'b');
    const { source, clock, endpoints, problems } = followRegistry(registry, { maxInstances: 5 });
    await clock.advance(1000);
    registry.register(...[11, 12, 13].map((n) => instance('a', `a-${n}`)));
    await clock.advance(2000);
    assert.deepEqual([endpoints('a').length, endpoints('b').length], [2, 2]);
    assert.match(problems.get('service a')?.message ?? '', /at most 5 instances/);
    registry.deregister('node-2', 'a-11');
    registry.deregister('node-0', 'a-12');
    await clock.advance(2000);
    assert.deepEqual([endpoints('a').length, problems.size], [3, 0]);
    await source.close();
  });

  test('a service beyond the memory of one service keeps the instances that it had, and others change', async () => {
    const registry = registryOf('a', 'b');
    const { source, clock, endpoints, problems } = followRegistry(registry, { maxServiceBytes: 20_000 });
    await clock.advance(1000);
    const long = Array.from({ length: 50 }, (_, n) => `key-${n}|${'v'.repeat(300)}`);
    registry.register({ ...instance('a', 'a-11'), tags: long }, instance('b', 'b-11'));
    await clock.advance(2000);
    assert.deepEqual([endpoints('a').length, endpoints('b').length], [2, 3]);
    assert.match(problems.get('service a')?.message ?? '', /at most 20000 bytes for the instances of one service/);
    registry.deregister('node-2', 'a-11');
    await clock.advance(2000);
    assert.equal(problems.size, 0);
    await source.close();
  });
});
