import assert from 'node:assert/strict';
import { constants } from 'node:crypto';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { type ConnectionOptions, connect, createServer, type Server, type TLSSocket } from 'node:tls';
import { encodePem } from '../core/tls/pem.ts';
import { DAY_MS, derOf, ecKey, makeCa, makeLeaf, pemOf, SERVER_AUTH } from './testing/credentials.ts';
import { SESSION_SECONDS, TlsSessions } from './tls-sessions.ts';

const START = Date.now();
const validity = { notBefore: START - DAY_MS, notAfter: START + DAY_MS };
const root = makeCa({ name: 'root', ...validity });
const middle = makeCa({ name: 'middle', issuer: root, ...validity });
const pemKey = (keys: ReturnType<typeof ecKey>): string =>
  encodePem('PRIVATE KEY', keys.privateKey.export({ format: 'der', type: 'pkcs8' }));

const serverKeys = ecKey('P-256');
const serverLeaf = makeLeaf({
  issuer: root,
  keys: serverKeys,
  dnsNames: ['localhost'],
  usages: [SERVER_AUTH],
  ...validity,
});
const own = {
  cert: pemOf(serverLeaf),
  key: pemKey(serverKeys),
  ca: [],
  secureOptions: constants.SSL_OP_NO_TICKET,
};

const clientKeys = ecKey('P-256');
/** What a client presents: its certificate, and the intermediate that signed it. */
function client(notAfter = validity.notAfter) {
  const chain = [makeLeaf({ issuer: middle, keys: clientKeys, ...validity, notAfter }), derOf(middle)];
  return { chain, cert: pemOf(...chain), key: pemKey(clientKeys) };
}

describe('TLS sessions', () => {
  let now = START;
  let sessions: TlsSessions;
  let server: Server;
  /** The certificates known of each client, in order. */
  let known: (readonly Uint8Array[] | undefined)[];
  /** Called when a client has tried to resume a session. */
  let found: () => void;
  /** Called with connections whose client certificates are known. */
  let judged: (socket: TLSSocket) => void;

  beforeEach(async () => {
    now = START;
    known = [];
    found = () => {};
    judged = () => {};
    sessions = new TlsSessions(() => now);
    server = createServer({ ...own, requestCert: true, rejectUnauthorized: false, sessionIdContext: 'one' });
    server.on('resumeSession', (id, done) => {
      const session = sessions.find(id);
      found();
      done(null, session ?? null);
    });
    server.on('secureConnection', (socket) => {
      socket.on('error', () => {});
      known.push(sessions.certificatesOf(socket));
      judged(socket);
      socket.end('.');
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
  });
  afterEach(() => server.close());

  /**
   * Connects, and waits until the server has decided. Gives the session for the next connection, and whether this one
   * was resumed.
   */
  async function visit(options: ConnectionOptions): Promise<{ session: Buffer | undefined; reused: boolean }> {
    const { port } = server.address() as AddressInfo;
    const socket: TLSSocket = connect({
      port,
      host: '127.0.0.1',
      rejectUnauthorized: false,
      maxVersion: 'TLSv1.2',
      ...options,
    });
    let session: Buffer | undefined;
    socket.on('session', (ticket: Buffer) => (session = ticket));
    await once(socket, 'data');
    const answer = { session: session ?? socket.getSession(), reused: socket.isSessionReused() };
    socket.destroy();
    await once(socket, 'close');
    return answer;
  }

  it('are resumed, with all certificates that the client presented when its session began', async () => {
    const { chain, ...shown } = client();
    const { session } = await visit(shown);
    const [first, second] = [await visit({ ...shown, session }), await visit({ ...shown, session })];
    assert.deepEqual([first.reused, second.reused], [true, true]);
    const expected = chain.map((der) => new Uint8Array(der));
    assert.deepEqual(known, [expected, expected, expected]);
  });

  it('belong to one client', async () => {
    const [one, other] = [client(), client()];
    const { session } = await visit(one);
    await visit(other);
    await visit({ ...one, session });
    const [of, ofOther] = [one, other].map(({ chain }) => chain.map((der) => new Uint8Array(der)));
    assert.deepEqual(known, [of, ofOther, of]);
  });

  it('expire after two hours, however often they are resumed', async () => {
    const shown = client();
    const { session } = await visit(shown);
    now += SESSION_SECONDS * 1000 - 1;
    assert.equal((await visit({ ...shown, session })).reused, true);
    now += 1;
    assert.equal((await visit({ ...shown, session })).reused, false);
  });

  it('expire with the certificate', async () => {
    const end = Math.floor(START / 1000) * 1000 + 60_000;
    const shown = client(end);
    const { session } = await visit(shown);
    now = end - 1;
    assert.equal((await visit({ ...shown, session })).reused, true);
    now = end;
    assert.equal((await visit({ ...shown, session })).reused, false);
  });

  it('are not resumed in another context', async () => {
    const shown = client();
    const { session } = await visit(shown);
    server.setSecureContext({ ...own, sessionIdContext: 'two' });
    const again = await visit({ ...shown, session });
    assert.equal(again.reused, false);
    assert.equal((await visit({ ...shown, session: again.session })).reused, true);
  });

  it('are not stored for clients without certificates', async () => {
    const { session } = await visit({});
    assert.equal((await visit({ session })).reused, false);
    assert.deepEqual(known, [[], []]);
  });

  it('are not resumed under TLS 1.3', async () => {
    const shown = { ...client(), maxVersion: 'TLSv1.3' } as const;
    const { session } = await visit(shown);
    assert.equal((await visit({ ...shown, session })).reused, false);
    assert.equal(known[1]?.length, 2);
  });

  it('are not resumed by a client that has switched to TLS 1.3', async () => {
    const shown = client();
    const { session } = await visit(shown);
    const again = await visit({ ...shown, session, maxVersion: 'TLSv1.3' });
    assert.equal(again.reused, false);
    assert.deepEqual(known[1], known[0]);
  });

  it('are deleted when they can no longer be resumed', async () => {
    const shown = client();
    const { session } = await visit(shown);
    sessions.forgetAll();
    assert.equal((await visit({ ...shown, session })).reused, false);
    const again = await visit(shown);
    assert.equal((await visit({ ...shown, session: again.session })).reused, true);
  });

  it('are deleted one by one, and those of others stay', async () => {
    const shown = client();
    const visits = [await visit(shown), await visit(shown)];
    judged = (socket) => sessions.forget(socket);
    await visit({ ...shown, session: visits[0]?.session });
    judged = () => {};
    const reused: boolean[] = [];
    for (const { session } of visits) reused.push((await visit({ ...shown, session })).reused);
    assert.deepEqual(reused, [false, true]);
  });

  it('are evicted for newer ones, the least recently used first', async () => {
    const one = client();
    const bytes = one.chain.reduce((sum, { length }) => sum + length, 0);
    // A session has the size of the leaf and some 200 bytes: three fit.
    sessions = new TlsSessions(() => now, 3 * (2 * bytes));
    const visits = [await visit(one), await visit(one), await visit(one)];
    await visit({ ...one, session: visits[0]?.session });
    for (let more = 0; more < 2; more++) await visit(one);
    const reused: boolean[] = [];
    for (const { session } of visits.slice(0, 2)) reused.push((await visit({ ...one, session })).reused);
    assert.deepEqual(reused, [true, false]);
  });

  it('do not identify a client when they are deleted during its handshake', async () => {
    const shown = client();
    const { session } = await visit(shown);
    found = () => (now += SESSION_SECONDS * 1000);
    assert.equal((await visit({ ...shown, session })).reused, true);
    assert.equal(known[1], undefined);
    assert.equal((await visit({ ...shown, session })).reused, false);
  });
});
