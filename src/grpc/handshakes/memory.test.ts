/** What an encrypted connection keeps of the buffers that it has used, in a process of its own. */
import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { test } from 'node:test';
import { connect } from 'node:tls';
import { DAY_MS, ecKey, makeCa, makeLeaf, pemOf } from '../../security/testing/credentials.ts';
import { FLAG_END_STREAM, FRAME, SETTING } from '../frames/frames.ts';
import { number, RawClient, request } from '../testing/raw-client.ts';
import { DOWNLOAD, UPLOAD } from '../testing/server.ts';

const WARM_UP = 30;
const CONNECTIONS = 130;

/** The names of a thousand clusters, in one burst. */
const SENT = 60_000;
const FRAME_BYTES = 15_000;

/** Several slices. */
const RECEIVED = 200_000;

/** 83 to 143, as the reads of the client fall; 166 with a buffer of 64 KiB for the reads of each connection. */
const MAX_KIB = 155;

/** Uses a connection as a proxy does that receives its first configuration. */
async function use(port: number): Promise<RawClient> {
  const options = { maxVersion: 'TLSv1.2', rejectUnauthorized: false, ALPNProtocols: ['h2'] } as const;
  const socket = connect({ port, host: '127.0.0.1', ...options });
  await once(socket, 'secureConnect');
  const client = new RawClient(socket);
  await client.begin([[SETTING.initialWindowSize, 2 ** 30]]);
  client.frame(FRAME.windowUpdate, 0, 0, number(2 ** 30));
  client.headers(1, request(UPLOAD));
  socket.cork();
  for (let sent = FRAME_BYTES; sent <= SENT; sent += FRAME_BYTES)
    client.frame(FRAME.data, sent === SENT ? FLAG_END_STREAM : 0, 1, Buffer.alloc(FRAME_BYTES));
  socket.uncork();
  assert.equal(await client.statusOf(1), 0);
  client.headers(3, request(DOWNLOAD, { 'x-bytes': String(RECEIVED), 'x-chunk': '70000' }), FLAG_END_STREAM);
  assert.equal(await client.statusOf(3), 0);
  client.frames.length = 0;
  return client;
}

test('an idle connection over TLS keeps no buffers for its largest reads and writes', async (t) => {
  const validity = { notBefore: Date.now() - DAY_MS, notAfter: Date.now() + DAY_MS };
  const keys = ecKey('P-256');
  const server = fork(join(import.meta.dirname, '../testing/tls-server-main.ts'), {
    execArgv: ['--expose-gc', '--max-semi-space-size=8'],
    env: {
      ...process.env,
      // As ctl-discovery sets them.
      MALLOC_ARENA_MAX: '1',
      MALLOC_MMAP_THRESHOLD_: '131072',
      TEST_KEY: keys.privateKey.export({ format: 'pem', type: 'pkcs8' }).toString(),
      TEST_CERT: pemOf(makeLeaf({ issuer: makeCa({ name: 'ca', ...validity }), keys, ...validity })),
    },
  });
  t.after(() => server.kill('SIGKILL'));
  const [port] = await once(server, 'message');
  const resident = async (): Promise<number> => {
    server.send('resident');
    return Number((await once(server, 'message'))[0]);
  };
  const clients: RawClient[] = [];
  t.after(() => {
    for (const client of clients) client.close();
  });
  while (clients.length < WARM_UP) clients.push(await use(Number(port)));
  const before = await resident();
  while (clients.length < WARM_UP + CONNECTIONS) clients.push(await use(Number(port)));
  const each = ((await resident()) - before) / CONNECTIONS / 1024;
  t.diagnostic(`${each.toFixed(0)} KiB each`);
  assert.ok(each < MAX_KIB, `${each.toFixed(0)} KiB for each connection`);
});
