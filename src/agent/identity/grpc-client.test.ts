import assert from 'node:assert/strict';
import { test } from 'node:test';
import { wallClock } from '../../core/wall-clock.ts';
import { openGrpc } from './grpc-client.ts';
import { testRoot } from './testing/certificates.ts';
import { startTestCa, TEST_SERVER_NAME } from './testing/test-ca.ts';

test('a server that the roots do not verify is named, without advice on the roots of Node', async (t) => {
  const ca = await startTestCa();
  t.after(() => ca.close());
  const server = { host: '127.0.0.1', port: ca.port, serverName: TEST_SERVER_NAME };
  const target = { ...server, roots: testRoot('another').pem, client: undefined };
  const connection = openGrpc(target, wallClock, 5_000);
  t.after(() => connection.close());
  const call = { path: '/a.Service/Call', metadata: {}, request: Buffer.alloc(0) };
  await assert.rejects(connection.unary(call), (error: Error) => {
    assert.match(error.message, /^127\.0\.0\.1:\d+ cannot be reached: .*certificate[^;]*$/);
    return true;
  });
});
