/**
 * A caller whose proxies need more different configurations than one caller may have: the response to its next proxy.
 */

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { type Client, Metadata, type StatusObject, status } from '@grpc/grpc-js';
import { XDS } from '../src/core/xds-types.ts';
import { MAX_VIEWS_OF_CALLER } from '../src/push/engine/caller-views.ts';
import { inline, Mesh, service, sidecar } from '../src/push/testing/mesh.ts';
import { ADS_PATHS } from '../src/xds/server/services.ts';
import { encodeDeltaRequest, encodeNode, encodeSotwRequest } from '../src/xds/testing/content.ts';
import { quietObserver } from '../src/xds/testing/engine.ts';
import { openCall } from '../src/xds/testing/peer.ts';
import { clientOf, testServer } from '../src/xds/testing/server.ts';

/** The views of a sidecar: the outbound and the inbound part. */
const VIEWS_OF_SIDECAR = 2;

const mesh = new Mesh(inline, [service('shop', 'web')]);
const refused: string[] = [];
const server = testServer({
  engine: mesh.engine,
  observer: { ...quietObserver, refused: (_peer, { code }) => refused.push(code) },
  authenticate: async ({ metadata }) => {
    const [namespace] = metadata.get('of');
    const identity = { trustDomain: 'cluster.local', namespace: String(namespace), serviceAccount: 'default' };
    return namespace === undefined ? undefined : { identity, by: 'token', expiresAt: Number.POSITIVE_INFINITY };
  },
});
const clients: Client[] = [];

after(async () => {
  for (const client of clients) client.close();
  await server.close({ drainMs: 0 });
});

/** The outcome: the size of the first response, or how the stream ended without one. */
type Outcome = number | Pick<StatusObject, 'code' | 'details'>;

/** A sidecar of this namespace that subscribes to clusters; `proved`: with a credential of the namespace. */
function ask(mode: 'sotw' | 'delta', namespace: string, proved = false): Promise<Outcome> {
  const client = clientOf(server);
  clients.push(client);
  const metadata = new Metadata();
  if (proved) metadata.set('of', namespace);
  const call = openCall(client, ADS_PATHS[mode], metadata);
  const id = `sidecar~10.5.0.1~pod.${namespace}~${namespace}.svc.cluster.local`;
  const fields = { typeUrl: XDS.cds.url, node: encodeNode(id, { NAMESPACE: namespace }) };
  call.write(mode === 'sotw' ? encodeSotwRequest(fields) : encodeDeltaRequest(fields));
  return new Promise((resolve) => {
    call.on('data', (bytes: Buffer) => resolve(bytes.length));
    call.on('status', resolve);
    // The status reports it, too.
    call.on('error', () => {});
  });
}

async function assertServed(outcome: Promise<Outcome>): Promise<void> {
  assert.equal(typeof (await outcome), 'number');
}

test('a proxy beyond the limit gets RESOURCE_EXHAUSTED; all others are served', async () => {
  await server.start();
  await assertServed(ask('delta', 'first'));
  // One address uses its whole limit; one of its proxies came over the network.
  for (let index = VIEWS_OF_SIDECAR; index < MAX_VIEWS_OF_CALLER; index += VIEWS_OF_SIDECAR)
    mesh.connect(sidecar('10.5.0.1', `ns-${index}`), undefined, '127.0.0.1');
  await mesh.settled();

  for (const mode of ['sotw', 'delta'] as const) {
    const outcome = await ask(mode, 'more');
    assert.ok(typeof outcome === 'object');
    assert.equal(outcome.code, status.RESOURCE_EXHAUSTED);
    assert.match(outcome.details, /proxies of 127\.0\.0\.1 .* no workload of the registry .* more than 1024/);
  }
  assert.deepEqual(refused, ['resource_exhausted', 'resource_exhausted']);
  // Replicas need no new views, and another caller has its own limit.
  await assertServed(ask('delta', 'first'));
  await assertServed(ask('delta', 'more', true));

  for (const session of [...mesh.engine.sessions()]) if (session.node.namespace === 'ns-2') session.close();
  await assertServed(ask('delta', 'other'));
});
