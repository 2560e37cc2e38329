/**
 * Requests that violate HTTP/2, and requests that are unusual but valid: a violation ends its
 * stream only.
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
  FLAG_PRIORITY,
  FRAME,
  SETTING,
} from './frames/frames.ts';
import { block, message, number, RawClient, request } from './testing/raw-client.ts';
import { ECHO, SILENT, startServer, type TestServer, WAIT } from './testing/server.ts';

let server: TestServer;

before(async () => {
  server = await startServer();
});

after(() => server.server.destroy());

const PRIORITY = Buffer.from([0, 0, 0, 0, 16]);
const END = FLAG_END_STREAM;
const WHOLE = FLAG_END_HEADERS;

type Deed = (client: RawClient) => void | Promise<void>;

/** A request that stays open. */
function openStream(client: RawClient, stream: number): void {
  client.headers(stream, request(SILENT));
}

/** A stream that both sides have ended. */
async function closedStream(client: RawClient, stream: number): Promise<void> {
  await client.echo(stream);
}

const STREAM_ERRORS: Readonly<Record<string, readonly [code: number, deed: Deed]>> = {
  'DATA behind the end': [
    ERROR.streamClosed,
    (client) => {
      client.call(1, WAIT);
      client.frame(FRAME.data, 0, 1, Buffer.from('x'));
    },
  ],
  'DATA on a stream that both have ended': [
    ERROR.streamClosed,
    async (client) => {
      await closedStream(client, 1);
      client.frame(FRAME.data, 0, 1, Buffer.from('x'));
    },
  ],
  'DATA on a stream that the client has reset': [
    ERROR.streamClosed,
    (client) => {
      openStream(client, 1);
      client.frame(FRAME.rstStream, 0, 1, number(ERROR.cancel));
      client.frame(FRAME.data, 0, 1, Buffer.from('x'));
    },
  ],
  'HEADERS after the end of the stream': [
    ERROR.streamClosed,
    (client) => {
      client.call(1, WAIT);
      client.headers(1, { a: 'b' }, END);
    },
  ],
  'HEADERS in the middle that do not end the stream': [
    ERROR.protocol,
    (client) => {
      openStream(client, 1);
      client.headers(1, { a: 'b' });
    },
  ],
  'pseudo headers in trailers': [
    ERROR.protocol,
    (client) => {
      openStream(client, 1);
      client.headers(1, { ':path': '/' }, END);
    },
  ],
  'WINDOW_UPDATE of 0': [
    ERROR.protocol,
    (client) => {
      openStream(client, 1);
      client.frame(FRAME.windowUpdate, 0, 1, number(0));
    },
  ],
  'a window over 2^31-1': [
    ERROR.flowControl,
    (client) => {
      openStream(client, 1);
      client.frame(FRAME.windowUpdate, 0, 1, number(2 ** 31 - 1));
    },
  ],
  'a header name in upper case': [ERROR.protocol, (client) => client.headers(1, request(ECHO, { 'X-Name': 'a' }))],
  'a header name with a space': [ERROR.protocol, (client) => client.headers(1, request(ECHO, { 'x name': 'a' }))],
  'a header value with a line break': [
    ERROR.protocol,
    (client) => client.headers(1, request(ECHO, { x: 'a\r\nb: c' })),
  ],
  'a header value with NUL': [ERROR.protocol, (client) => client.headers(1, request(ECHO, { x: 'a\0' }))],
  'a path with a line break': [ERROR.protocol, (client) => client.headers(1, request('/a\nb'))],
  'a connection header': [ERROR.protocol, (client) => client.headers(1, request(ECHO, { connection: 'close' }))],
  'te other than trailers': [ERROR.protocol, (client) => client.headers(1, request(ECHO, { te: 'gzip' }))],
  'an unknown pseudo header': [ERROR.protocol, (client) => client.headers(1, { ':other': 'a', ...request(ECHO) })],
  'a pseudo header of responses': [
    ERROR.protocol,
    (client) => client.headers(1, { ':status': '200', ...request(ECHO) }),
  ],
  'no method': [ERROR.protocol, (client) => client.headers(1, { ':path': ECHO, ':scheme': 'http' })],
  'no scheme': [ERROR.protocol, (client) => client.headers(1, { ':path': ECHO, ':method': 'POST' })],
  'an empty path': [ERROR.protocol, (client) => client.headers(1, request(''))],
  'content-length that is not a number': [
    ERROR.protocol,
    (client) => client.headers(1, request(ECHO, { 'content-length': '-1' })),
  ],
  'content-length without content': [
    ERROR.protocol,
    (client) => client.headers(1, request(ECHO, { 'content-length': '1' }), END),
  ],
  'content-length larger than the content': [
    ERROR.protocol,
    (client) => {
      client.headers(1, request(ECHO, { 'content-length': '7' }));
      client.frame(FRAME.data, 0, 1, message('x'));
      client.headers(1, { a: 'b' }, END);
    },
  ],
  'content-length smaller than the content': [
    ERROR.protocol,
    (client) => {
      client.headers(1, request(ECHO, { 'content-length': '5' }));
      client.frame(FRAME.data, END, 1, message('x'));
    },
  ],
  'a pseudo header twice': [
    ERROR.protocol,
    (client) => client.headers(1, [[':path', '/other'], ...Object.entries(request(ECHO))]),
  ],
  'a pseudo header after another header': [
    ERROR.protocol,
    (client) =>
      client.headers(1, [
        [':method', 'POST'],
        [':scheme', 'http'],
        ['content-type', 'application/grpc'],
        [':path', ECHO],
      ]),
  ],
};

for (const [what, [code, deed]] of Object.entries(STREAM_ERRORS))
  test(`the stream ends and its connection stays open: ${what}`, async () => {
    const client = await RawClient.connect(server.port);
    await deed(client);
    assert.equal(await client.resetCode(1), code);
    await client.echo(3);
    client.close();
  });

const FINE: Readonly<Record<string, Deed>> = {
  'unknown frames': (client) => client.frame(99, 255, 7, Buffer.alloc(100)),
  'unknown settings': (client) => client.send(encodeSettings([[99, 99]])),
  'unknown flags': (client) => client.headers(1, request(SILENT), 0x52),
  'PRIORITY on an idle stream': (client) => client.frame(FRAME.priority, 0, 9, PRIORITY),
  'PRIORITY on a closed stream': async (client) => {
    await closedStream(client, 1);
    client.frame(FRAME.priority, 0, 1, PRIORITY);
  },
  'WINDOW_UPDATE and RST_STREAM on a closed stream': async (client) => {
    await closedStream(client, 1);
    client.frame(FRAME.windowUpdate, 0, 1, number(1));
    client.frame(FRAME.rstStream, 0, 1, number(ERROR.cancel));
  },
  'answers to pings that were not sent': (client) => client.frame(FRAME.ping, FLAG_ACK, 0, Buffer.alloc(8)),
  'empty HEADERS with all in CONTINUATIONs': async (client) => {
    const headers = block(request(ECHO));
    client.frame(FRAME.headers, 0, 1);
    for (let at = 0; at < headers.length; at += 10)
      client.frame(FRAME.continuation, 0, 1, headers.subarray(at, at + 10));
    client.frame(FRAME.continuation, WHOLE, 1);
    client.frame(FRAME.data, END, 1, message('x'));
    assert.equal(await client.statusOf(1), 0);
  },
  'HEADERS with padding and priority': async (client) => {
    const payload = Buffer.concat([Buffer.from([4]), PRIORITY, block(request(ECHO)), Buffer.alloc(4)]);
    client.frame(FRAME.headers, WHOLE | FLAG_PADDED | FLAG_PRIORITY, 1, payload);
    client.frame(FRAME.data, END, 1, message('x'));
    assert.equal(await client.statusOf(1), 0);
  },
  'DATA with padding, a message in pieces, and an empty end': async (client) => {
    client.headers(1, request(ECHO));
    for (const byte of message('padded')) client.frame(FRAME.data, FLAG_PADDED, 1, Buffer.from([3, byte, 0, 0, 0]));
    client.frame(FRAME.data, END | FLAG_PADDED, 1, Buffer.from([0]));
    assert.equal(await client.statusOf(1), 0);
    assert.deepEqual(client.dataOf(1), message('padded'));
  },
  'content-length of the content without padding': async (client) => {
    client.headers(1, request(ECHO, { 'content-length': '6' }));
    client.frame(FRAME.data, FLAG_PADDED, 1, Buffer.concat([Buffer.from([2]), message('x'), Buffer.alloc(2)]));
    client.frame(FRAME.data, END, 1);
    assert.equal(await client.statusOf(1), 0);
  },
  'trailers of a client': async (client) => {
    client.headers(1, request(ECHO));
    client.frame(FRAME.data, 0, 1, message('x'));
    client.headers(1, { 'x-trailer': 'a' }, END);
    assert.equal(await client.statusOf(1), 0);
  },
  'a header table of no size': async (client) => {
    client.send(encodeSettings([[SETTING.headerTableSize, 0]]));
    await client.next('settings');
  },
  'a reserved bit in the number of a stream': async (client) => {
    client.frame(FRAME.headers, WHOLE, 1 + 2 ** 31, block(request(ECHO)));
    client.frame(FRAME.data, END, 1 + 2 ** 31, message('x'));
    assert.equal(await client.statusOf(1), 0);
  },
  'stream numbers with gaps': async (client) => {
    await client.echo(5);
    await client.echo(11);
  },
};

for (const [what, deed] of Object.entries(FINE))
  test(`it is accepted: ${what}`, async () => {
    const client = await RawClient.connect(server.port);
    await deed(client);
    await client.ping();
    await client.echo(101);
    client.close();
  });

test('none of this was an internal error', () => assert.deepEqual(server.faults, []));
