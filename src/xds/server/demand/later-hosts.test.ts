/** The virtual hosts of views of proxies on demand in a large mesh are generated when a proxy needs them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { GeneratedJob } from '../../../push/jobs/index.ts';
import { changing, watched } from '../../../push/testing/faults.ts';
import { collectGarbage, inline, Mesh, meshResource, service, sidecar } from '../../../push/testing/mesh.ts';
import type { AnyResource } from '../../../resources/kinds/types.ts';
import { concernedNames, leadsTo } from '../../on-demand/index.ts';

const NAMESPACE = 'shop';
const DNS = `${NAMESPACE}.svc.cluster.local`;
const HOSTS = Array.from({ length: 8 }, (_, index) => `s${index}`);
const SERVICES = HOSTS.map((name, at) => service(NAMESPACE, name, { clusterIP: `10.9.1.${at}` }));

async function connected(more: readonly AnyResource[] = [], generator = inline) {
  const options = { concerned: concernedNames, leadsTo, laterClusters: { above: 1 }, canaryAbove: 0 };
  const mesh = new Mesh(generator, [...SERVICES, ...more], options);
  let pushes = 0;
  let pushed = (): void => {};
  const sink = {
    push: () => {
      pushes++;
      pushed();
      return Promise.resolve('nothing' as const);
    },
  };
  const connect = async (address: string) => {
    const node = { ...sidecar(address, NAMESPACE), discoversVirtualHosts: true };
    const options = { configuration: 'on-demand' as const };
    const made = mesh.engine.connect({ ...node, options }, sink, 'Envoy');
    await made.ready;
    return made;
  };
  const session = await connect('10.1.0.1');
  const hosts = () =>
    session.content().vhds.flatMap((bundle) => bundle.resources().map(({ name }) => name.split('/')[1]));
  const onPush = (call: () => void): void => {
    pushed = call;
  };
  return { mesh, session, hosts, connect, onPush, pushes: () => pushes };
}

test('a virtual host is generated when a proxy needs it, others are not', async () => {
  const { session, hosts } = await connected();
  assert.deepEqual(hosts(), ['allow_any']);
  assert.equal(session.laterHosts?.has('80/s3'), true);
  await session.laterHosts?.need(['80/s3'], session);
  assert.deepEqual(hosts(), ['allow_any', `s3.${DNS}:80`]);
  assert.equal(session.laterHosts?.has('80/s3'), false);
  assert.equal(session.laterHosts?.need(['80/s3'], session), undefined);
});

test('a name without a service has the virtual host of a service that is created later', async () => {
  const { mesh, session, hosts } = await connected();
  await session.laterHosts?.need(['80/new'], session);
  assert.deepEqual(hosts(), ['allow_any']);
  mesh.change([service(NAMESPACE, 'new', { clusterIP: '10.9.2.1' })]);
  await mesh.settled();
  assert.deepEqual(hosts(), ['allow_any', `new.${DNS}:80`]);
});

test('a proxy that waits for a virtual host gets it where it was generated for another name', async () => {
  const { mesh, session, pushes } = await connected();
  await session.laterHosts?.need(['80/s3'], session);
  await mesh.settled();
  const name = `80/s3.${DNS}:80`;
  session.hold([{ names: [name] }]);
  const before = pushes();
  session.laterHosts?.want([name]);
  await mesh.settled();
  await session.laterHosts?.need([name], session);
  await mesh.settled();
  assert.ok(pushes() > before);
});

test('all virtual hosts are generated for a proxy that needs them', async () => {
  const { session, hosts } = await connected();
  await session.laterHosts?.need(undefined, session);
  assert.equal(session.laterHosts, undefined);
  assert.equal(hosts().length, HOSTS.length + 1);
});

test('a proxy that waits for a virtual host does not wait longer where all are generated meanwhile', async () => {
  const { mesh, session, hosts } = await connected();
  const { laterHosts } = session;
  let isThere = false;
  const waits = laterHosts?.need(['80/s3'], session);
  void waits?.then(() => (isThere = true));
  assert.ok(waits !== undefined && laterHosts?.need(undefined, session) !== undefined);
  await mesh.settled();
  assert.equal(hosts().length, HOSTS.length + 1);
  assert.ok(isThere);
});

const numbered = (count: number, suffix = '') => Array.from({ length: count }, (_, at) => `80/unknown-${at}${suffix}`);

test('names without a service count for as long as their proxy is there, and get the services created later', async () => {
  const { mesh, session, hosts, connect } = await connected();
  const hostile = await connect('10.1.0.2');
  const names = [...numbered(1023), '80/new'];
  await hostile.laterHosts?.need(names, hostile);
  hostile.hold([{ names }]);
  await session.laterHosts?.need(['80/s3'], session);
  session.hold([{ names: ['80/s3'] }]);
  assert.deepEqual(hosts(), ['allow_any', `s3.${DNS}:80`]);
  mesh.change([service(NAMESPACE, 'new', { clusterIP: '10.9.2.1' })]);
  await mesh.settled();
  assert.deepEqual(hosts(), ['allow_any', `new.${DNS}:80`, `s3.${DNS}:80`].sort());
  hostile.close();
  mesh.change([service(NAMESPACE, 'other', { clusterIP: '10.9.2.2' })]);
  await mesh.settled();
  assert.deepEqual(hosts(), ['allow_any', `s3.${DNS}:80`]);
  assert.equal(session.laterHosts?.has('80/s3'), false);
  assert.ok(names.every((name) => session.laterHosts?.has(name) === true));
});

test('a step looks up only names of which virtual hosts are generated, and others when one of these goes', async () => {
  const any = meshResource('VirtualService', NAMESPACE, 'any', {
    hosts: ['*.example.com'],
    http: [{ route: [{ destination: { host: 's3' } }] }],
  });
  const lookedUp: (readonly string[] | undefined)[] = [];
  const { session, hosts, connect } = await connected(
    [any],
    watched((job) => lookedUp.push(job.hosts)),
  );
  const other = await connect('10.1.0.2');
  const needs = async (by: typeof session, ...names: string[]): Promise<void> => {
    by.hold([{ names }]);
    await by.laterHosts?.need(names, by);
  };
  await needs(other, '80/a.example.com', '80/unknown');
  await needs(session, '80/b.example.com');
  await needs(session, '80/b.example.com', '80/s1');
  await needs(session, '80/b.example.com', '80/s1', '80/c.example.com');
  other.close();
  await needs(session, '80/b.example.com', '80/s1', '80/c.example.com', '80/d.example.com');
  assert.deepEqual(lookedUp.slice(-5), [
    ['80/a.example.com', '80/unknown'],
    ['80/a.example.com', '80/b.example.com'],
    ['80/a.example.com', '80/s1'],
    ['80/a.example.com', '80/c.example.com', '80/s1'],
    ['80/b.example.com', '80/c.example.com', '80/d.example.com', '80/s1'],
  ]);
  assert.deepEqual(hosts(), ['allow_any', '*.example.com:80', `s1.${DNS}:80`].sort());
});

test('a name is kept for a proxy that does not hold it yet', async () => {
  const { mesh, session, hosts, connect } = await connected();
  const other = await connect('10.1.0.2');
  other.hold([{ names: ['80/s3'] }]);
  await other.laterHosts?.need(['80/s3'], other);
  // It is there already: the request is answered in a moment, in which the other proxy disconnects.
  assert.equal(session.laterHosts?.need(['80/s3'], session), undefined);
  session.hold([{ names: ['80/s1'] }]);
  other.close();
  mesh.change([service(NAMESPACE, 'new', { clusterIP: '10.9.2.1' })]);
  await mesh.settled();
  assert.deepEqual(hosts(), ['allow_any', `s3.${DNS}:80`]);
});

test('all virtual hosts are generated for the names of more proxies than a view looks up, and of those in use', async () => {
  const { mesh, session, hosts, connect } = await connected();
  for (let at = 0; at < 16; at++) {
    const hostile = await connect(`10.1.1.${at}`);
    const names = numbered(1024, `.${at}`);
    hostile.hold([{ names }]);
    await hostile.laterHosts?.need(names, hostile);
    assert.ok(session.laterHosts !== undefined);
    // What proxies asked for that have gone does not count.
    if (at < 3) hostile.close();
  }
  const names = numbered(3 * 1024);
  await session.laterHosts?.need(names, session);
  assert.deepEqual(hosts(), ['allow_any']);
  await session.laterHosts?.need(['80/s3'], session);
  await mesh.settled();
  assert.equal(session.laterHosts, undefined);
  assert.equal(hosts().length, HOSTS.length + 1);
});

test('all virtual hosts are generated where proxies use more than a thousand', async () => {
  const more = Array.from({ length: 1025 }, (_, at) =>
    service(NAMESPACE, `m${at}`, { clusterIP: `10.8.${at >> 8}.${at & 255}` }),
  );
  const { mesh, session, hosts } = await connected(more);
  const names = more.map((_, at) => `80/m${at}`);
  session.hold([{ names }]);
  await session.laterHosts?.need(names.slice(1), session);
  await mesh.settled();
  assert.equal(hosts().length, 1025);
  assert.ok(session.laterHosts !== undefined);
  await session.laterHosts?.need(names, session);
  await mesh.settled();
  assert.equal(session.laterHosts, undefined);
  assert.equal(hosts().length, 1025 + HOSTS.length + 1);
});

/** The job, without the virtual hosts of port 80: these could not be generated. */
function withoutHosts(job: GeneratedJob): GeneratedJob {
  const { units, failures } = job.answer;
  const made = units.find(({ type, unit }) => type === 'vhds' && unit === '80');
  if (made === undefined) return job;
  const failed = { type: 'vhds', unit: '80', message: 'a bug', reads: made.reads } as const;
  const answer = { ...job.answer, units: units.filter((each) => each !== made), failures: [...failures, failed] };
  return { ...job, answer };
}

test('a route configuration that cannot be generated fails those alone who ask for hosts of it', async () => {
  const ports = [{ name: 'http', port: 8080, targetPort: 8080 }];
  let [breaks, jobs] = [false, 0];
  const broken = changing((job): GeneratedJob => {
    jobs++;
    return breaks ? withoutHosts(job) : job;
  });
  const elsewhere = service(NAMESPACE, 'elsewhere', { clusterIP: '10.9.2.1', ports });
  const { mesh, session, hosts, connect } = await connected([elsewhere], broken);
  const other = await connect('10.1.0.2');
  await session.laterHosts?.need(['80/s3'], session);
  breaks = true;
  const waits = [
    session.laterHosts?.need(['80/s3', '8080/elsewhere'], session),
    other.laterHosts?.need(['80/s1'], other),
  ];
  await waits[0];
  await assert.rejects(async () => waits[1], /a bug/);
  const had = [`s3.${DNS}:80`, `elsewhere.${DNS}:8080`];
  assert.deepEqual(hosts().sort(), ['allow_any', 'allow_any', ...had].sort());
  // What failed is tried again for who asks again, and not for nobody.
  await mesh.settled();
  const before = jobs;
  await mesh.settled();
  assert.equal(jobs, before);
  assert.equal(session.laterHosts?.need(['80/s3', '8080/elsewhere'], session), undefined);
  breaks = false;
  await other.laterHosts?.need(['80/s1'], other);
  assert.deepEqual(hosts().sort(), ['allow_any', 'allow_any', `s1.${DNS}:80`, ...had].sort());
});

test('a host that cannot be generated is not generated again and again for a proxy that gets it without asking', async () => {
  let [breaks, jobs] = [false, 0];
  const broken = changing((job): GeneratedJob => {
    jobs++;
    return breaks ? withoutHosts(job) : job;
  });
  const { mesh, session, hosts, onPush } = await connected([], broken);
  const name = `80/s3.${DNS}:80`;
  session.hold([{ names: [name] }]);
  // As a proxy that has learned of it.
  onPush(() => session.laterHosts?.want([name]));
  breaks = true;
  session.laterHosts?.want([name]);
  await mesh.settled();
  assert.equal(session.laterHosts?.has(name), true);
  const before = jobs;
  await mesh.settled();
  assert.equal(jobs, before);
  // It is when the route configuration can be generated again.
  breaks = false;
  mesh.change([service(NAMESPACE, 'new', { clusterIP: '10.9.2.1' })]);
  await mesh.settled();
  assert.deepEqual(hosts(), ['allow_any', `s3.${DNS}:80`]);
  assert.equal(session.laterHosts?.has(name), false);
});

test('where a route configuration cannot be generated, nobody asks for all virtual hosts again and again', async () => {
  let [breaks, jobs] = [false, 0];
  const broken = changing((job): GeneratedJob => {
    jobs++;
    return breaks ? withoutHosts(job) : job;
  });
  const { mesh, session, hosts } = await connected([], broken);
  await session.laterHosts?.need(['80/s3'], session);
  breaks = true;
  await assert.rejects(async () => session.laterHosts?.need(undefined, session), /a bug/);
  await mesh.settled();
  assert.equal(session.laterHosts, undefined);
  const before = jobs;
  await mesh.settled();
  assert.equal(jobs, before);
  breaks = false;
  mesh.change([service(NAMESPACE, 'new', { clusterIP: '10.9.2.1' })]);
  await mesh.settled();
  assert.equal(hosts().length, HOSTS.length + 2);
});

test('for a name that is longer than a host name, the virtual host of its suffix is generated', async () => {
  const any = meshResource('VirtualService', NAMESPACE, 'any', {
    hosts: ['*.example.com'],
    http: [{ route: [{ destination: { host: 's3' } }] }],
  });
  const { session, hosts } = await connected([any]);
  const long = 'x.'.repeat(10_000);
  const names = [`80/${long}unknown`, `${long}/s1`, `80/${long}example.com`];
  await session.laterHosts?.need(names, session);
  assert.deepEqual(hosts(), ['allow_any', '*.example.com:80'].sort());
  assert.ok(names.every((name) => session.laterHosts?.has(name) === false));
});

test('all virtual hosts are generated where an EnvoyFilter changes some', async () => {
  const value = { name: 'patched', domains: ['s3'] };
  const configPatches = [
    { applyTo: 'VIRTUAL_HOST', match: { context: 'SIDECAR_OUTBOUND' }, patch: { operation: 'MERGE', value } },
  ];
  const { session, hosts } = await connected([meshResource('EnvoyFilter', NAMESPACE, 'hosts', { configPatches })]);
  assert.equal(session.laterHosts, undefined);
  assert.ok(session.laterClusters !== undefined);
  assert.ok(hosts().length >= HOSTS.length);
});

test('names of route configurations that do not exist are dropped with the proxy that asked for them', async () => {
  const { mesh, session, connect } = await connected();
  const bytesAfter = async (rounds: number): Promise<number> => {
    for (let round = 0; round < rounds; round++) {
      const hostile = await connect('10.1.0.2');
      const names = Array.from({ length: 1000 }, (_, at) => `${'x'.repeat(480)}-${rounds}-${round}-${at}/a`);
      hostile.hold([{ names }]);
      await hostile.laterHosts?.need(names, hostile);
      hostile.close();
      await session.laterHosts?.need([`80/unknown-${rounds}-${round}`], session);
      await mesh.settled();
    }
    await collectGarbage();
    return process.memoryUsage().heapUsed;
  };
  const before = await bytesAfter(4);
  // The names of 20 rounds have 10 MB.
  const after = await bytesAfter(20);
  assert.ok(after - before < 5_000_000, `${after - before} bytes`);
});
