/** The virtual hosts of views of proxies on demand in a large mesh are generated when a proxy needs them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { GeneratedJob } from '../../../push/jobs/index.ts';
import { changing } from '../../../push/testing/faults.ts';
import { inline, Mesh, meshResource, service, sidecar } from '../../../push/testing/mesh.ts';
import type { AnyResource } from '../../../resources/kinds/types.ts';
import { concernedNames, leadsTo } from '../../on-demand/index.ts';

const NAMESPACE = 'shop';
const DNS = `${NAMESPACE}.svc.cluster.local`;
const HOSTS = Array.from({ length: 8 }, (_, index) => `s${index}`);
const SERVICES = HOSTS.map((name, at) => service(NAMESPACE, name, { clusterIP: `10.9.1.${at}` }));

async function connected(more: readonly AnyResource[] = [], generator = inline) {
  const options = { concerned: concernedNames, leadsTo, laterClusters: { above: 1 }, canaryAbove: 0 };
  const mesh = new Mesh(generator, [...SERVICES, ...more], options);
  const node = { ...sidecar('10.1.0.1', NAMESPACE), discoversVirtualHosts: true };
  const configuration = 'on-demand' as const;
  let pushes = 0;
  const sink = {
    push: () => {
      pushes++;
      return Promise.resolve('nothing' as const);
    },
  };
  const session = mesh.engine.connect({ ...node, options: { configuration } }, sink, 'Envoy');
  await session.ready;
  const hosts = () =>
    session.content().vhds.flatMap((bundle) => bundle.resources().map(({ name }) => name.split('/')[1]));
  return { mesh, session, hosts, pushes: () => pushes };
}

test('a virtual host is generated when a proxy needs it, others are not', async () => {
  const { session, hosts } = await connected();
  assert.deepEqual(hosts(), ['allow_any']);
  assert.equal(session.laterHosts?.has('80/s3'), true);
  await session.laterHosts?.need(['80/s3']);
  assert.deepEqual(hosts(), ['allow_any', `s3.${DNS}:80`]);
  assert.equal(session.laterHosts?.has('80/s3'), false);
  assert.equal(session.laterHosts?.need(['80/s3']), undefined);
});

test('a name without a service has the virtual host of a service that is created later', async () => {
  const { mesh, session, hosts } = await connected();
  await session.laterHosts?.need(['80/new']);
  assert.deepEqual(hosts(), ['allow_any']);
  mesh.change([service(NAMESPACE, 'new', { clusterIP: '10.9.2.1' })]);
  await mesh.settled();
  assert.deepEqual(hosts(), ['allow_any', `new.${DNS}:80`]);
});

test('a proxy that waits for a virtual host gets it where it was generated for another name', async () => {
  const { mesh, session, pushes } = await connected();
  await session.laterHosts?.need(['80/s3']);
  await mesh.settled();
  const name = `80/s3.${DNS}:80`;
  session.hold([{ names: [name] }]);
  const before = pushes();
  session.laterHosts?.want([name]);
  await mesh.settled();
  await session.laterHosts?.need([name]);
  await mesh.settled();
  assert.ok(pushes() > before);
});

test('all virtual hosts are generated for a proxy that needs them, and for more names than a view keeps', async () => {
  const names = Array.from({ length: 1025 }, (_, index) => `80/unknown-${index}`);
  for (const needed of [undefined, names]) {
    const { session, hosts } = await connected();
    await session.laterHosts?.need(needed);
    assert.equal(session.laterHosts, undefined);
    assert.equal(hosts().length, HOSTS.length + 1);
  }
});

test('where a route configuration cannot be generated, nobody asks for all virtual hosts again and again', async () => {
  let [breaks, jobs] = [false, 0];
  const broken = changing((job): GeneratedJob => {
    jobs++;
    const { units, failures } = job.answer;
    const whole = breaks ? units.find(({ type, unit }) => type === 'vhds' && unit === '80') : undefined;
    if (whole === undefined) return job;
    const failed = { type: 'vhds', unit: '80', message: 'a bug', reads: whole.reads } as const;
    const answer = { ...job.answer, units: units.filter((each) => each !== whole), failures: [...failures, failed] };
    return { ...job, answer };
  });
  const { mesh, session, hosts } = await connected([], broken);
  await session.laterHosts?.need(['80/s3']);
  breaks = true;
  await assert.rejects(async () => session.laterHosts?.need(undefined), /a bug/);
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
  await session.laterHosts?.need(names);
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
