/** The end of a server whose proxies move to other replicas. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { status } from '@grpc/grpc-js';
import { XDS } from '../../core/xds-types.ts';
import { Content, encodeDeltaRequest, encodeNode, type ParsedResponse, SIDECAR_ID } from '../testing/content.ts';
import { FakeEngine } from '../testing/engine.ts';
import { openPeer, type Peer } from '../testing/peer.ts';
import { clientOf, testServer } from '../testing/server.ts';
import { ADS_PATHS } from './services.ts';

const PROXIES = 3;
const node = encodeNode(SIDECAR_ID, { NAMESPACE: 'shop', LABELS: { app: 'web' } });
const subscribe = encodeDeltaRequest({ typeUrl: XDS.cds.url, node });

/** Acknowledges the next response; returns the version of its first resource. */
async function answered(peer: Peer): Promise<string | undefined> {
  const { nonce, resources }: ParsedResponse = await peer.next();
  peer.send(encodeDeltaRequest({ typeUrl: XDS.cds.url, nonce }));
  return resources[0]?.version;
}

test('a server that ends takes its streams one by one, and those that wait get changes', async (t) => {
  const content = new Content();
  content.set('cds', 'web', '1');
  const engine = new FakeEngine(content);
  let next = (): void => undefined;
  const server = testServer({
    engine,
    delay: () =>
      new Promise((resolve) => {
        next = () => resolve(undefined);
      }),
  });
  await server.start();
  const open = async () => {
    const client = clientOf(server);
    t.after(() => client.close());
    const peer = openPeer(client, 'delta', ADS_PATHS);
    peer.send(subscribe);
    await answered(peer);
    return peer;
  };
  const peers = [];
  for (let index = 0; index < PROXIES; index++) peers.push(await open());

  const closed = server.close({ drainMs: 60_000 });
  for (const [index, peer] of peers.entries()) {
    assert.equal((await peer.ended).code, status.UNAVAILABLE);
    content.set('cds', 'web', String(index + 2));
    engine.publish();
    for (const waiting of peers.slice(index + 1)) {
      assert.equal(await answered(waiting), `v:${index + 2}`);
    }
    assert.equal(server.connections().length, PROXIES - index - 1);
    next();
  }
  await closed;
});
