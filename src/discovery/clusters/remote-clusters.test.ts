import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CORE, openHome, SECRETS, SERVICES, secret, service, startRemote, until } from '../testing/remote-home.ts';

test('clusters of Secrets with either label are read, followed, and removed with their Secret', async (context) => {
  const { home, remotes, sources, has } = await openHome(context);
  const [east, west, other] = await Promise.all([1, 2, 3].map(() => startRemote(context)));
  assert.ok(east !== undefined && west !== undefined && other !== undefined);
  for (const server of [east, west, other]) server.set(SERVICES, service('web'));
  home.set(SECRETS, secret('remote-east', { east: east.kubeconfig() }));
  home.set(SECRETS, secret('plain', { plain: other.kubeconfig() }, { labels: {} }));
  home.set(SECRETS, secret('elsewhere', { elsewhere: other.kubeconfig() }, { namespace: 'shop' }));
  await remotes.start();
  assert.ok(has('Service/shop/web/east'));
  assert.deepEqual(
    remotes.clients().map(({ cluster }) => cluster),
    ['east'],
  );
  assert.deepEqual(sources.status(), [{ id: 'kubernetes/east', cluster: 'east', synced: true, health: { ok: true } }]);
  home.set(SECRETS, secret('remote-west', { west: west.kubeconfig() }, { labels: { 'istio/multiCluster': 'true' } }));
  await until('the second cluster is read', () => has('Service/shop/web/west'));
  west.set(SERVICES, service('late'));
  await until('it is followed', () => has('Service/shop/late/west'));
  home.remove(SECRETS, { name: 'remote-west', namespace: 'mesh-system' });
  await until('it is removed', () => !has('Service/shop/web/west') && !has('Service/shop/late/west'));
  assert.deepEqual([has('Service/shop/web/east'), remotes.clients().map(({ cluster }) => cluster)], [true, ['east']]);
  assert.equal(other.requests.length, 0);
  const read = new Set(east.requests.map(({ path }) => path));
  assert.deepEqual([...read].sort(), CORE.map((plural) => `/api/v1/${plural}`).sort());
});

const broken = (change: (config: { clusters: object[]; users: object[] }) => void): string => {
  const config = {
    clusters: [{ name: 'c', cluster: { server: 'https://127.0.0.1:1' } }],
    users: [{ name: 'u', user: { token: 'hidden-token' } }],
    contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'c',
  };
  change(config);
  return JSON.stringify(config);
};
const user = (fields: object) => broken((config) => config.users.splice(0, 1, { name: 'u', user: fields }));
const server = (fields: object) =>
  broken((config) =>
    config.clusters.splice(0, 1, { name: 'c', cluster: { server: 'https://127.0.0.1:1', ...fields } }),
  );

for (const [what, text, expected] of [
  ['a credential plugin', user({ exec: { command: '/bin/sh' } }), /users\[0\]\.user\.exec: /],
  ['a token file', user({ tokenFile: '/etc/shadow' }), /users\[0\]\.user\.tokenFile: /],
  ['a certificate file', user({ 'client-certificate': '/etc/shadow' }), /users\[0\]\.user\.client-certificate: /],
  ['an authority file', server({ 'certificate-authority': '/etc/shadow' }), /cluster\.certificate-authority: /],
  ['a proxy', server({ 'proxy-url': 'http://127.0.0.1:2' }), /clusters\[0\]\.cluster\.proxy-url: /],
  ['an unverified server', server({ 'insecure-skip-tls-verify': true }), /cluster\.insecure-skip-tls-verify: /],
  ['a string that is not YAML', 'token: hidden-token: {', /expected YAML or JSON/],
  ['nothing', '', /expected a kubeconfig of at most 131072 bytes, got none/],
  ['too much', 'x'.repeat(200_000), /expected a kubeconfig of at most 131072 bytes/],
] as const) {
  test(`a Secret with ${what} is refused with one line that names its key`, async (context) => {
    const { home, remotes, sources, lines } = await openHome(context);
    home.set(SECRETS, secret('remote-east', { east: text }));
    await remotes.start();
    assert.equal(lines.length, 1);
    const [line = ''] = lines;
    assert.ok(line.startsWith('Secret mesh-system/remote-east, key east: '), line);
    assert.match(line, expected);
    assert.match(line, /; the cluster is not read$/);
    assert.ok(!line.includes('hidden-token'));
    assert.deepEqual(sources.status(), []);
    assert.deepEqual(remotes.refused(), [
      {
        id: 'Secret mesh-system/remote-east, key east',
        cluster: 'east',
        synced: false,
        health: { ok: false, reason: line },
      },
    ]);
    // Another change of the Secret does not repeat it.
    home.set(SECRETS, secret('remote-east', { east: text }, { created: '2026-01-01T00:00:01Z' }));
    home.set(SECRETS, secret('marker', { home: 'x' }));
    await until('both are seen', () => lines.length > 1);
    assert.equal(
      lines[1],
      'Secret mesh-system/marker, key home: expected the ID of another cluster; home is this one (--clusterID)',
    );
  });
}

test('the older of two Secrets for one cluster is in force, and the other one when it is deleted', async (context) => {
  const { home, remotes, lines, has, changes } = await openHome(context);
  const [old, young] = [await startRemote(context), await startRemote(context)];
  for (const each of [old, young]) each.set(SERVICES, service('web'));
  old.set(SERVICES, service('old'));
  young.set(SERVICES, service('young'));
  home.set(SECRETS, secret('a-young', { east: young.kubeconfig() }, { created: '2026-01-02T00:00:00Z' }));
  home.set(SECRETS, secret('b-old', { east: old.kubeconfig() }, { created: '2026-01-01T00:00:00Z' }));
  await remotes.start();
  assert.ok(has('Service/shop/old/east') && !has('Service/shop/young/east'));
  const conflict = 'expected one Secret for cluster east; mesh-system/b-old is in force, not mesh-system/a-young';
  assert.deepEqual(
    lines.filter((line) => line.includes('expected')),
    [`Secret mesh-system/a-young, key east: ${conflict}`],
  );
  home.remove(SECRETS, { name: 'b-old', namespace: 'mesh-system' });
  await until('the other one is in force', () => has('Service/shop/young/east') && !has('Service/shop/old/east'));
  assert.ok(!changes.includes('-Service/shop/web/east'));
});

test('new credentials replace the old ones without a gap, and those that do not work never do', async (context) => {
  const { home, remotes, sources, has, changes, lines } = await openHome(context);
  const east = await startRemote(context);
  east.set(SERVICES, service('web'));
  const valid = new Set(['Bearer first', 'Bearer third']);
  east.intercept = ({ headers }, stream) =>
    valid.has(String(headers.authorization)) ? false : east.fail(stream, 401, 'Unauthorized');
  home.set(SECRETS, secret('remote-east', { east: east.kubeconfig('first') }));
  await remotes.start();
  const clientOf = (name: string) => remotes.clients().find(({ cluster }) => cluster === name)?.client;
  const first = clientOf('east');
  home.set(SECRETS, secret('remote-east', { east: east.kubeconfig('second') }));
  const health = () => sources.status()[0]?.health;
  await until('the refusal', () => JSON.stringify(health()).includes('401'));
  assert.match(JSON.stringify(health()), /its replacement is not in force yet: .*HTTP 401 Unauthorized/);
  east.set(SERVICES, service('late'));
  await until('the old credentials are used', () => has('Service/shop/late/east'));
  assert.equal(clientOf('east'), first);
  home.set(SECRETS, secret('remote-east', { east: '{' }));
  await until('the damaged one is refused', () =>
    lines.some((line) => line.endsWith('the previous kubeconfig stays in use')),
  );
  home.set(SECRETS, secret('remote-east', { east: east.kubeconfig('third') }));
  await until('the new credentials are in force', () => clientOf('east') !== first);
  assert.deepEqual(health(), { ok: true });
  valid.delete('Bearer first');
  east.resetWatches(8);
  east.set(SERVICES, service('last'));
  await until('the new credentials are used', () => has('Service/shop/last/east'), lines);
  assert.deepEqual(
    changes.filter((change) => change.startsWith('-')),
    [],
  );
});

test('the start waits a limited time for a cluster that is down, and reads it later', async (context) => {
  const { home, remotes, has, lines } = await openHome(context, 100);
  const [near, far] = [await startRemote(context), await startRemote(context)];
  for (const each of [near, far]) each.set(SERVICES, service('web'));
  far.intercept = (_request, stream) => far.fail(stream, 503, 'ServiceUnavailable');
  home.set(SECRETS, secret('remotes', { near: near.kubeconfig(), far: far.kubeconfig() }));
  await remotes.start();
  assert.deepEqual([has('Service/shop/web/near'), has('Service/shop/web/far')], [true, false]);
  assert.ok(
    lines.some((line) =>
      /^cluster far \(Secret mesh-system\/remotes\) has not been read yet: .*503.*; serving without it$/.test(line),
    ),
    lines.join('\n'),
  );
  far.intercept = () => false;
  await until('it is read later', () => has('Service/shop/web/far'));
});

test('without the right to read the Secrets no other cluster is read, and one line says so', async (context) => {
  const { home, remotes, has, lines } = await openHome(context);
  const east = await startRemote(context);
  east.set(SERVICES, service('web'));
  home.set(SECRETS, secret('remote-east', { east: east.kubeconfig() }));
  home.intercept = (_request, stream) => home.fail(stream, 403, 'Forbidden');
  await remotes.start();
  assert.equal(lines.length, 1, lines.join('\n'));
  assert.match(
    lines[0] ?? '',
    /^Secrets of other clusters in namespace mesh-system cannot be read, so only clusters .*: HTTP 403/,
  );
  home.intercept = () => false;
  await until('the cluster is read', () => has('Service/shop/web/east'));
});

test('at most 100 clusters are read', async (context) => {
  const { home, remotes, sources, lines } = await openHome(context, 1000);
  // Nothing listens there.
  const text = broken(() => {});
  const data = Object.fromEntries(Array.from({ length: 102 }, (_, index) => [`c${index}`, text]));
  home.set(SECRETS, secret('remotes', data));
  await remotes.start();
  assert.equal(sources.status().length, 100);
  assert.equal(lines.filter((line) => /expected at most 100 clusters; cluster c\d+ is not read/.test(line)).length, 2);
});

test('new credentials that may not read what the old ones read change nothing', async (context) => {
  const { home, remotes, sources, has, changes } = await openHome(context);
  const east = await startRemote(context);
  east.set(SERVICES, service('web'));
  let mayRead = false;
  east.intercept = ({ headers, path }, stream) => {
    const isRefused = headers.authorization === 'Bearer second' && !mayRead && path.startsWith(SERVICES);
    return isRefused && east.fail(stream, 403, 'Forbidden');
  };
  home.set(SECRETS, secret('remote-east', { east: east.kubeconfig('first') }));
  await remotes.start();
  home.set(SECRETS, secret('remote-east', { east: east.kubeconfig('second') }));
  const health = () => JSON.stringify(sources.status()[0]?.health);
  await until('the refusal', () => /not in force yet: Service: .*403/.test(health()));
  const asked = () =>
    east.requests.filter(({ path, headers }) => path === SERVICES && headers.authorization === 'Bearer second').length;
  await until('several attempts', () => asked() > 6);
  east.set(SERVICES, service('late'));
  await until('the old credentials are used', () => has('Service/shop/late/east'));
  mayRead = true;
  await until('the new ones are in force', () => health() === '{"ok":true}');
  assert.ok(!changes.some((change) => change.startsWith('-')));
});

test('a Secret that is created again, or gets the other label, does not interrupt its cluster', async (context) => {
  const { home, remotes, has, lines, changes } = await openHome(context, 1);
  const east = await startRemote(context);
  east.set(SERVICES, service('web'));
  const connections = () => lines.filter((line) => line.includes('cluster east: reading')).length;
  home.set(SECRETS, secret('remote-east', { east: east.kubeconfig() }));
  await remotes.start();
  home.remove(SECRETS, { name: 'remote-east', namespace: 'mesh-system' });
  home.set(SECRETS, secret('marker', { home: 'x' }));
  await until('the deletion is seen', () => lines.some((line) => line.includes('marker')));
  const labels = { 'istio/multiCluster': 'true' };
  home.set(SECRETS, secret('remote-east', { east: east.kubeconfig(), home: 'x' }, { labels }));
  await until('the Secret is seen', () => lines.some((line) => line.includes('remote-east, key home')));
  assert.ok(has('Service/shop/web/east'));
  assert.equal(connections(), 1);
  assert.ok(!changes.some((change) => change.startsWith('-')));
});

test('a start that is closed ends', async (context) => {
  const { home, remotes, sources, lines } = await openHome(context, 1);
  const east = await startRemote(context);
  east.intercept = (_request, stream) => east.fail(stream, 503, 'ServiceUnavailable');
  home.set(SECRETS, secret('remote-east', { east: east.kubeconfig() }));
  const started = remotes.start();
  await until('the cluster is asked', () => east.requests.length > 0);
  await remotes.close();
  await started;
  await sources.close();
  assert.ok(!lines.some((line) => line.includes('has not been read yet')));
});

test('a start that is closed before the Secrets were read ends', async (context) => {
  const { home, remotes } = await openHome(context, 1);
  home.intercept = (_request, stream) => home.fail(stream, 500, 'InternalError');
  const started = remotes.start();
  await until('the Secrets are asked for', () => home.requests.length > 0);
  await remotes.close();
  await started;
});

test('a cluster that sends more than its quota is not read, and one that grows beyond it keeps what it had', async (context) => {
  const { home, remotes, sources, has } = await openHome(context, 200, 64 * 1024);
  const [huge, east] = [await startRemote(context), await startRemote(context)];
  const many = (from: number, to: number) => Array.from({ length: to - from }, (_, index) => `s${from + index}`);
  for (const name of many(0, 1000)) huge.set(SERVICES, service(name));
  for (const name of many(0, 20)) east.set(SERVICES, service(name));
  home.set(SECRETS, secret('remotes', { huge: huge.kubeconfig(), east: east.kubeconfig() }));
  const started = remotes.start();
  await until('the cluster within its quota is read', () => has('Service/shop/s19/east'));
  const reasonOf = (name: string) => JSON.stringify(sources.status().find(({ cluster }) => cluster === name)?.health);
  await until('the list is refused', () =>
    /Service: cannot list: expected at most 0 MiB of objects/.test(reasonOf('huge')),
  );
  assert.ok(!has('Service/shop/s0/huge'));
  for (const name of many(20, 1000)) east.set(SERVICES, service(name));
  await until('the changes are refused', () => /Service: cannot watch: expected at most/.test(reasonOf('east')));
  assert.ok(has('Service/shop/s0/east') && !has('Service/shop/s999/east'));
  for (const name of many(10, 1000)) {
    for (const server of [huge, east]) server.remove(SERVICES, { name, namespace: 'shop' });
  }
  await started;
  await until('the smaller list is read', () => has('Service/shop/s0/huge'));
});

test('changes that a cluster sends without a pause are collected and counted, and none is lost', async (context) => {
  const { home, remotes, lines, has, delayed } = await openHome(context);
  const east = await startRemote(context);
  home.set(SECRETS, secret('remote-east', { east: east.kubeconfig() }));
  await remotes.start();
  const noise = /^cluster east: changes arrive too fast/;
  let sent = 0;
  await until('they are collected', () => {
    east.set(SERVICES, service(`web-${++sent}`));
    return lines.some((line) => noise.test(line));
  });
  await until('the last one is in force', () => has(`Service/shop/web-${sent}/east`), lines);
  for (let each = 1; each <= sent; each++) assert.ok(has(`Service/shop/web-${each}/east`));
  assert.ok(delayed() > 0);
  assert.equal(lines.filter((line) => noise.test(line)).length, 1);
});
