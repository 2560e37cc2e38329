/** Which proxies get the filters of Istio's builds of Envoy; the golden file `peer-exchange` shows them in place. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { announcesByFilter, serverPeerExchange, tcpAlpn, tellsServers } from './peer-exchange.ts';

const ON = { tcpMetadataExchange: true };
const NAMES = ['envoy.filters.network.metadata_exchange', 'envoy.filters.network.upstream.metadata_exchange'];
const LISTED = { capabilities: { extensions: [...NAMES, 'istio.alpn'], sds: true } };

test('a proxy gets the filters that it lists', () => {
  assert.deepEqual(
    serverPeerExchange(ON, LISTED).map(({ name }) => name),
    NAMES.slice(0, 1),
  );
  assert.equal(tellsServers(ON, LISTED), true);
  assert.equal(announcesByFilter(ON, LISTED), true);
  assert.deepEqual(tcpAlpn(true), ['istio-peer-exchange', 'istio']);
});

test('one that does not list them, or lists nothing, gets none, and so does one of a mesh without the exchange', () => {
  const unlisted = { capabilities: { extensions: [], sds: true } };
  const silent = { capabilities: { extensions: undefined, sds: true } };
  for (const [settings, view] of [
    [ON, unlisted],
    [ON, silent],
    [{ tcpMetadataExchange: false }, LISTED],
  ] as const) {
    assert.deepEqual(serverPeerExchange(settings, view), []);
    assert.equal(tellsServers(settings, view), false);
    assert.equal(announcesByFilter(settings, view), false);
  }
  assert.deepEqual(tcpAlpn(false), ['istio']);
});
