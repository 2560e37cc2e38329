/** A kubeconfig that leads to the local cluster under the ID of another one. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openHome, SECRETS, SERVICES, secret, service, startRemote, until } from '../testing/remote-home.ts';

/** The Service that every API server makes. */
const kubernetes = (uid: string) => {
  return { ...service('kubernetes'), metadata: { name: 'kubernetes', namespace: 'default', uid } };
};

test('a kubeconfig of the local cluster under another ID is refused with one line, until it is corrected', async (context) => {
  const { home, remotes, sources, has, lines, changes } = await openHome(context);
  // The own cluster at another address.
  const [same, east] = [await startRemote(context), await startRemote(context)];
  for (const server of [home, same]) server.set(SERVICES, kubernetes('one'));
  east.set(SERVICES, kubernetes('two'));
  for (const server of [same, east]) server.set(SERVICES, service('web'));
  home.set(SECRETS, secret('remote-east', { east: same.kubeconfig() }));
  await remotes.start();
  const { server: url } = same.access();
  const reason = (consequence: string) =>
    `Secret mesh-system/remote-east, key east: expected a kubeconfig of another cluster; ${url.origin} is the API ` +
    `server of this cluster (it has the same Service default/kubernetes); ${consequence}`;
  assert.deepEqual(lines.slice(1), [reason('the cluster is not read')]);
  assert.equal(changes.length, 0);
  assert.deepEqual(remotes.clients(), []);
  const health = { ok: false, reason: reason('the cluster is not read') };
  assert.deepEqual(sources.status(), [{ id: 'kubernetes/east', cluster: 'east', synced: false, health }]);
  home.set(SECRETS, secret('remote-east', { east: east.kubeconfig() }));
  await until('the corrected one is read', () => has('Service/shop/web/east'), lines);
  await until('its client is used', () => remotes.clients().length === 1);
  home.set(SECRETS, secret('remote-east', { east: same.kubeconfig('second') }));
  await until('it is refused', () => lines.includes(reason('the previous kubeconfig stays in use')), lines);
  assert.match(
    JSON.stringify(sources.status()[0]?.health),
    /not in force yet: Secret mesh-system.remote-east, key east/,
  );
  east.set(SERVICES, service('late'));
  await until('the one before is followed', () => has('Service/shop/late/east'), lines);
  assert.ok(!changes.some((change) => change.startsWith('-')));
});

test('without the right to read Services of the local cluster, other clusters are read, and one line says so', async (context) => {
  const { home, remotes, has, lines } = await openHome(context);
  const east = await startRemote(context);
  east.set(SERVICES, kubernetes('two'));
  home.intercept = ({ path }, stream) => path.endsWith('/services') && home.fail(stream, 403, 'Forbidden');
  home.set(SECRETS, secret('remote-east', { east: east.kubeconfig() }));
  await remotes.start();
  assert.ok(has('Service/default/kubernetes/east'));
  assert.match(lines[0] ?? '', /^cannot read Service default.kubernetes: HTTP 403 .* would not be detected$/);
});
