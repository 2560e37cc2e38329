import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { eventually } from '../../../test/harness/eventually.ts';
import { FirstBytes } from './first-bytes.ts';

/** A connection whose server waits for the first record. */
async function opened(t: TestContext) {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  const [socket]: Socket[] = await once(server, 'connection');
  assert.ok(socket !== undefined);
  t.after(() => {
    client.destroy();
    socket.destroy();
    server.close();
  });
  const events: string[] = [];
  const first = new FirstBytes(socket, {
    arrived: () => void events.push('arrived'),
    invalid: () => void events.push('invalid'),
  });
  /** Sends bytes, and waits until the server has read them. */
  const send = async (...bytes: number[]): Promise<void> => {
    const before = socket.bytesRead;
    client.write(Buffer.from(bytes));
    await eventually(() => assert.equal(socket.bytesRead, before + bytes.length));
  };
  return { client, socket, first, events, send };
}

test('the first record is complete when all of its content has arrived, and is put back', async (t) => {
  const { socket, first, events, send } = await opened(t);
  const record = [22, 3, 1, 0, 3, 1, 0, 0];
  for (const byte of record.slice(0, -1)) {
    await send(byte);
    assert.equal(first.complete, false);
  }
  assert.deepEqual(events, []);
  await send(...record.slice(-1));
  await eventually(() => assert.deepEqual(events, ['arrived']));
  assert.equal(first.complete, true);
  await send(9);
  assert.deepEqual(events, ['arrived']);
  first.putBack();
  assert.deepEqual([...(socket.read() ?? [])], [...record, 9]);
});

test('bytes that are not a handshake record end the connection', async (t) => {
  for (const bytes of [[71], [22, 2], [22, 3, 1, 0, 0], [22, 3, 1, 0x40, 1]]) {
    const { client, events } = await opened(t);
    client.resume();
    client.write(Buffer.from(bytes));
    await once(client, 'close');
    assert.deepEqual(events, ['invalid'], String(bytes));
  }
});
