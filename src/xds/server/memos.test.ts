/** A server with its memos switched off beside one with memos: several proxies are sent the same by both. */

import assert from 'node:assert/strict';
import { after, it } from 'node:test';
import type { Client } from '@grpc/grpc-js';
import { Memos } from '../../core/memo.ts';
import { XDS, type XdsType } from '../../core/xds-types.ts';
import {
  Content,
  encodeDeltaRequest,
  encodeNode,
  encodeSotwRequest,
  type ParsedResponse,
  SIDECAR_ID,
} from '../testing/content.ts';
import { FakeEngine } from '../testing/engine.ts';
import { openPeer, type Peer } from '../testing/peer.ts';
import { clientOf, testServer } from '../testing/server.ts';
import type { XdsServer } from './server.ts';
import { ADS_PATHS } from './services.ts';

const node = encodeNode(SIDECAR_ID);
const NAMES = Array.from({ length: 300 }, (_, index) => `eds-${index}`);
const PROXIES = 2;

const memos = { on: new Memos(), off: new Memos({ enabled: false }) };
const servers: XdsServer[] = [];
const clients: Client[] = [];

after(async () => {
  for (const client of clients) client.close();
  for (const server of servers) await server.close({ drainMs: 0 });
});

/** A request of either variant, for all endpoints or all resources of another type. */
function request(mode: 'sotw' | 'delta', type: XdsType, last?: ParsedResponse): Buffer {
  const names = type === 'eds' ? NAMES : [];
  const fields = { typeUrl: XDS[type].url, node, ...(last === undefined ? {} : { nonce: last.nonce }) };
  if (mode === 'sotw') return encodeSotwRequest({ ...fields, names, version: last?.version ?? '' });
  return encodeDeltaRequest({ ...fields, subscribe: last === undefined ? names : [] });
}

/** What a server sends to proxies, one after the other, at first and after a change. */
async function story(mode: 'sotw' | 'delta', remember: Memos): Promise<ParsedResponse[]> {
  const content = new Content();
  for (const name of NAMES) content.set('cds', `cluster-${name}`, '1', [name]);
  for (const name of NAMES) content.set('eds', name, '1');
  const engine = new FakeEngine(content);
  const server = testServer({
    engine,
    memos: remember,
  });
  servers.push(server);
  await server.start();
  const got: ParsedResponse[] = [];
  const peers: Peer[] = [];
  const take = async (peer: Peer, type: XdsType): Promise<void> => {
    const response = await peer.next();
    // Their order is that in which some proxy named them first, and has no meaning.
    got.push({ ...response, resources: response.resources.toSorted((a, b) => (a.name < b.name ? -1 : 1)) });
    peer.send(request(mode, type, response));
  };
  for (let index = 0; index < PROXIES; index++) {
    const client = clientOf(server);
    clients.push(client);
    const peer = openPeer(client, mode, ADS_PATHS);
    peers.push(peer);
    for (const type of ['cds', 'eds'] as const) {
      peer.send(request(mode, type));
      await take(peer, type);
    }
  }
  content.set('eds', 'eds-7', '2');
  engine.publish();
  for (const peer of peers) await take(peer, 'eds');
  return got;
}

for (const mode of ['sotw', 'delta'] as const)
  it(`gives proxies the same responses over ${mode} with and without memos`, async () => {
    const [shared, unshared] = [await story(mode, memos.on), await story(mode, memos.off)];
    assert.equal(shared.length, PROXIES * 3);
    assert.deepEqual(unshared, shared);
    const made = (of: Memos): number => [...of.counts().values()].reduce((sum, one) => sum + one.made, 0);
    assert.ok(made(memos.off) > made(memos.on));
  });
