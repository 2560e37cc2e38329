import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { connect, createServer, type SecureVersion, type Server, type TLSSocket } from 'node:tls';
import { encodePem } from '../core/tls/pem.ts';
import { shownBy } from './peer-certificates.ts';
import { derOf, ecKey, makeCa, makeLeaf, pemOf, SERVER_AUTH } from './testing/credentials.ts';

const root = makeCa({ name: 'root' });
const middle = makeCa({ name: 'middle', issuer: root });
const pemKey = (keys: ReturnType<typeof ecKey>): string =>
  encodePem('PRIVATE KEY', keys.privateKey.export({ format: 'der', type: 'pkcs8' }));

const serverKeys = ecKey('P-256');
const clientKeys = ecKey('P-256');
const ofRoot = makeLeaf({ issuer: root, keys: clientKeys });
const ofMiddle = makeLeaf({ issuer: middle, keys: clientKeys });

describe('the certificates of a TLS client', () => {
  let server: Server;
  before(async () => {
    const cert = pemOf(makeLeaf({ issuer: root, keys: serverKeys, dnsNames: ['localhost'], usages: [SERVER_AUTH] }));
    server = createServer({ cert, key: pemKey(serverKeys), ca: [], requestCert: true, rejectUnauthorized: false });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
  });
  after(() => server.close());

  /** The certificates that the server gets, in two calls. */
  async function seen(shown: readonly Uint8Array[], version: SecureVersion): Promise<(readonly Uint8Array[])[]> {
    const { port } = server.address() as AddressInfo;
    const accepted = once(server, 'secureConnection') as Promise<[TLSSocket]>;
    const own = shown.length === 0 ? {} : { cert: pemOf(...shown), key: pemKey(clientKeys) };
    const client = connect({ port, host: '127.0.0.1', ca: [], rejectUnauthorized: false, maxVersion: version, ...own });
    client.on('error', () => {});
    const [socket] = await accepted;
    const answers = [shownBy(socket).certificates, shownBy(socket).certificates];
    const closed = once(socket, 'close');
    client.destroy();
    socket.destroy();
    await closed;
    return [...answers, shownBy(socket).certificates];
  }

  const CASES: readonly (readonly [string, readonly Uint8Array[]])[] = [
    ['are none when it shows none', []],
    ['are its own alone when it shows no other', [ofRoot]],
    ['are its own and the intermediate', [ofMiddle, derOf(middle)]],
    ['are its own, the intermediate and the root', [ofMiddle, derOf(middle), derOf(root)]],
  ];
  for (const version of ['TLSv1.2', 'TLSv1.3'] as const)
    for (const [what, shown] of CASES)
      it(`${what}, in repeated calls (${version})`, async () => {
        const expected = shown.map((der) => new Uint8Array(der));
        assert.deepEqual(await seen(shown, version), [expected, expected, []]);
      });
});
