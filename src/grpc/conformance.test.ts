/**
 * A client that violates HTTP/2: the connection or the stream ends as RFC 9113 says, and
 * others are still served.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
  ERROR,
  settingsFrame as encodeSettings,
  FLAG_ACK,
  FLAG_END_HEADERS,
  FLAG_END_STREAM,
  FLAG_PADDED,
  FRAME,
  PREFACE,
  SETTING,
} from './frames/frames.ts';
import { block, message, number, RawClient, request } from './testing/raw-client.ts';
import { ECHO, SILENT, startServer, type TestServer } from './testing/server.ts';

let server: TestServer;
let bystander: RawClient;
let bystanderStream = 1;

before(async () => {
  server = await startServer();
  bystander = await RawClient.connect(server.port);
});

after(() => {
  bystander.close();
  server.server.destroy();
});

/** Another connection is served. */
async function othersAreServed(): Promise<void> {
  await bystander.echo(bystanderStream);
  bystanderStream += 2;
}

const PRIORITY = Buffer.from([0, 0, 0, 0, 16]);
const END = FLAG_END_STREAM;
const WHOLE = FLAG_END_HEADERS;

/** A request that stays open. */
function openStream(client: RawClient, stream: number): void {
  client.headers(stream, request(SILENT));
}

/** A stream that both sides have ended. */
async function closedStream(client: RawClient, stream: number): Promise<void> {
  await client.echo(stream);
}

type Deed = (client: RawClient) => void | Promise<void>;

const CONNECTION_ERRORS: Readonly<Record<string, readonly [code: number, deed: Deed]>> = {
  'DATA on stream 0': [ERROR.protocol, (client) => client.frame(FRAME.data, 0, 0, Buffer.from('x'))],
  'HEADERS on stream 0': [ERROR.protocol, (client) => client.headers(0, request(ECHO))],
  'HEADERS on an even stream': [ERROR.protocol, (client) => client.headers(2, request(ECHO))],
  'HEADERS on a stream below the last one': [
    ERROR.streamClosed,
    (client) => {
      openStream(client, 5);
      client.headers(3, request(ECHO));
    },
  ],
  'HEADERS on a closed stream': [
    ERROR.streamClosed,
    async (client) => {
      await closedStream(client, 1);
      client.headers(1, request(ECHO));
    },
  ],
  'DATA on an idle stream': [ERROR.protocol, (client) => client.frame(FRAME.data, 0, 1, Buffer.from('x'))],
  'RST_STREAM on an idle stream': [ERROR.protocol, (client) => client.frame(FRAME.rstStream, 0, 1, number(8))],
  'RST_STREAM on stream 0': [ERROR.protocol, (client) => client.frame(FRAME.rstStream, 0, 0, number(8))],
  'RST_STREAM of three bytes': [
    ERROR.frameSize,
    (client) => {
      openStream(client, 1);
      client.frame(FRAME.rstStream, 0, 1, Buffer.alloc(3));
    },
  ],
  'WINDOW_UPDATE on an idle stream': [ERROR.protocol, (client) => client.frame(FRAME.windowUpdate, 0, 1, number(1))],
  'WINDOW_UPDATE of 0': [ERROR.protocol, (client) => client.frame(FRAME.windowUpdate, 0, 0, number(0))],
  'WINDOW_UPDATE of three bytes': [
    ERROR.frameSize,
    (client) => client.frame(FRAME.windowUpdate, 0, 0, Buffer.alloc(3)),
  ],
  'a connection window over 2^31-1': [
    ERROR.flowControl,
    (client) => client.frame(FRAME.windowUpdate, 0, 0, number(2 ** 31 - 1)),
  ],
  'SETTINGS on a stream': [ERROR.protocol, (client) => client.frame(FRAME.settings, 0, 1)],
  'SETTINGS of the wrong size': [ERROR.frameSize, (client) => client.frame(FRAME.settings, 0, 0, Buffer.alloc(5))],
  'SETTINGS with ACK and content': [
    ERROR.frameSize,
    (client) => client.frame(FRAME.settings, FLAG_ACK, 0, Buffer.alloc(6)),
  ],
  'ENABLE_PUSH of 2': [ERROR.protocol, (client) => client.send(encodeSettings([[SETTING.enablePush, 2]]))],
  'INITIAL_WINDOW_SIZE over 2^31-1': [
    ERROR.flowControl,
    (client) => client.send(encodeSettings([[SETTING.initialWindowSize, 2 ** 31]])),
  ],
  'SETTINGS that grow a window over 2^31-1': [
    ERROR.flowControl,
    (client) => {
      openStream(client, 1);
      client.frame(FRAME.windowUpdate, 0, 1, number(2 ** 31 - 1 - 65_535));
      client.send(encodeSettings([[SETTING.initialWindowSize, 65_536]]));
    },
  ],
  'MAX_FRAME_SIZE too small': [
    ERROR.protocol,
    (client) => client.send(encodeSettings([[SETTING.maxFrameSize, 16_383]])),
  ],
  'MAX_FRAME_SIZE too large': [
    ERROR.protocol,
    (client) => client.send(encodeSettings([[SETTING.maxFrameSize, 2 ** 24]])),
  ],
  'PING on a stream': [ERROR.protocol, (client) => client.frame(FRAME.ping, 0, 1, Buffer.alloc(8))],
  'PING of seven bytes': [ERROR.frameSize, (client) => client.frame(FRAME.ping, 0, 0, Buffer.alloc(7))],
  'GOAWAY on a stream': [ERROR.protocol, (client) => client.frame(FRAME.goaway, 0, 1, Buffer.alloc(8))],
  PUSH_PROMISE: [ERROR.protocol, (client) => client.frame(FRAME.pushPromise, WHOLE, 1, number(2))],
  'PRIORITY on stream 0': [ERROR.protocol, (client) => client.frame(FRAME.priority, 0, 0, PRIORITY)],
  'a frame larger than allowed': [
    ERROR.frameSize,
    (client) => {
      openStream(client, 1);
      client.frame(FRAME.data, 0, 1, Buffer.alloc(16_385));
    },
  ],
  'an unknown frame larger than allowed': [ERROR.frameSize, (client) => client.frame(99, 0, 0, Buffer.alloc(16_385))],
  'padding as long as the frame of DATA': [
    ERROR.protocol,
    (client) => {
      openStream(client, 1);
      client.frame(FRAME.data, FLAG_PADDED, 1, Buffer.from([2, 0]));
    },
  ],
  'a padded DATA frame without length of padding': [
    ERROR.frameSize,
    (client) => {
      openStream(client, 1);
      client.frame(FRAME.data, FLAG_PADDED, 1);
    },
  ],
  'padding longer than the frame of HEADERS': [
    ERROR.protocol,
    (client) => client.frame(FRAME.headers, WHOLE | FLAG_PADDED, 1, Buffer.from([5, 0x82])),
  ],
  'CONTINUATION without HEADERS': [
    ERROR.protocol,
    (client) => client.frame(FRAME.continuation, WHOLE, 1, block(request(ECHO))),
  ],
  'CONTINUATION behind whole HEADERS': [
    ERROR.protocol,
    (client) => {
      openStream(client, 1);
      client.frame(FRAME.continuation, WHOLE, 1, block({ a: 'b' }));
    },
  ],
  'CONTINUATION of another stream': [
    ERROR.protocol,
    (client) => {
      client.frame(FRAME.headers, 0, 1, block(request(ECHO)));
      client.frame(FRAME.continuation, WHOLE, 3);
    },
  ],
  'PING between HEADERS and CONTINUATION': [
    ERROR.protocol,
    (client) => {
      client.frame(FRAME.headers, 0, 1, block(request(ECHO)));
      client.frame(FRAME.ping, 0, 0, Buffer.alloc(8));
    },
  ],
  'DATA between HEADERS and CONTINUATION': [
    ERROR.protocol,
    (client) => {
      openStream(client, 1);
      client.frame(FRAME.headers, 0, 3, block(request(ECHO)));
      client.frame(FRAME.data, 0, 1, Buffer.from('x'));
    },
  ],
  'an unknown frame between HEADERS and CONTINUATION': [
    ERROR.protocol,
    (client) => {
      client.frame(FRAME.headers, 0, 1, block(request(ECHO)));
      client.frame(99, 0, 1);
    },
  ],
  'a header block that cannot be decoded': [
    ERROR.compression,
    (client) => client.frame(FRAME.headers, WHOLE, 1, Buffer.from([0x80])),
  ],
  'a truncated header block': [
    ERROR.compression,
    (client) => client.frame(FRAME.headers, WHOLE, 1, block(request(ECHO)).subarray(0, -1)),
  ],
};

for (const [what, [code, deed]] of Object.entries(CONNECTION_ERRORS))
  test(`the connection ends: ${what}`, async () => {
    const client = await RawClient.connect(server.port);
    await deed(client);
    assert.equal(await client.goawayCode(), code);
    await client.untilEnded();
    await othersAreServed();
  });

test('pings are answered with their payload, also on a connection without streams', async () => {
  const client = await RawClient.connect(server.port);
  for (let round = 0; round < 10; round++) await client.ping();
  client.close();
});

test('all frames may arrive byte by byte', async () => {
  const client = await RawClient.open(server.port);
  const end = Buffer.alloc(9);
  end.writeUIntBE(message('x').length, 0, 3);
  end.writeUInt8(END, 4);
  end.writeUInt32BE(1, 5);
  const head = Buffer.alloc(9);
  head.writeUIntBE(block(request(ECHO)).length, 0, 3);
  head.writeUInt8(FRAME.headers, 3);
  head.writeUInt8(WHOLE, 4);
  head.writeUInt32BE(1, 5);
  const all = Buffer.concat([PREFACE, encodeSettings([]), head, block(request(ECHO)), end, message('x')]);
  for (const byte of all) {
    client.send(Buffer.from([byte]));
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.equal(await client.statusOf(1), 0);
  client.close();
});

for (const [what, bytes] of [
  ['HTTP/1.1', Buffer.from('GET / HTTP/1.1\r\nHost: a\r\n\r\n')],
  ['TLS', Buffer.from([22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3])],
  ['a preface with a wrong end', Buffer.concat([PREFACE.subarray(0, -1), Buffer.from('x')])],
  [
    'no SETTINGS behind the preface',
    Buffer.concat([PREFACE, Buffer.from([0, 0, 8, FRAME.ping, 0, 0, 0, 0, 0]), Buffer.alloc(8)]),
  ],
] as const)
  test(`a connection that is not HTTP/2 is closed: ${what}`, async () => {
    const client = await RawClient.open(server.port);
    client.send(bytes);
    await client.untilEnded();
    await othersAreServed();
  });

test('none of this was an internal error', () => {
  assert.deepEqual(server.faults, []);
});
