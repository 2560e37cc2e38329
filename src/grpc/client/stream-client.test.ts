import assert from 'node:assert/strict';
import http2, { type Http2Server, type ServerHttp2Session } from 'node:http2';
import { type AddressInfo, createServer } from 'node:net';
import { after, test } from 'node:test';
import { CtlError } from '../../core/errors.ts';
import { waitUntil } from '../../core/testing/wait-until.ts';
import { encodePem } from '../../core/tls/pem.ts';
import { DAY_MS, ecKey, makeCa, makeLeaf } from '../../security/testing/credentials.ts';
import { prefixed } from '../messages.ts';
import { MIRROR, startServer } from '../testing/server.ts';
import { type ClientStream, openClientStream, type StreamClientOptions, type StreamTls } from './stream-client.ts';

const OPTIONS: StreamClientOptions = {
  maxMessageBytes: 1000,
  streamWindow: 200_000,
  connectionWindow: 300_000,
  connectTimeoutMs: 60_000,
  keepaliveMs: 60_000,
  keepaliveTimeoutMs: 60_000,
};

interface Opened {
  readonly stream: ClientStream;
  readonly messages: string[];
  readonly errors: CtlError[];
  opened: boolean;
}

function open(port: number, path: string, options: Partial<StreamClientOptions> = {}, tls?: StreamTls): Opened {
  const [messages, errors]: [string[], CtlError[]] = [[], []];
  const handler = {
    opened: () => {
      found.opened = true;
    },
    message: (bytes: Buffer) => void messages.push(String(bytes)),
    ended: (error: CtlError) => void errors.push(error),
  };
  const stream = openClientStream({ host: '127.0.0.1', port, tls, path }, { ...OPTIONS, ...options }, handler);
  const found: Opened = { stream, messages, errors, opened: false };
  after(() => stream.close());
  return found;
}

/** A server of one stream that the test writes. */
async function raw(serve: (stream: http2.ServerHttp2Stream) => void) {
  const server: Http2Server = http2.createServer();
  const sessions: ServerHttp2Session[] = [];
  server.on('session', (session) => sessions.push(session));
  server.on('stream', (stream) => {
    stream.on('error', () => {});
    serve(stream);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  after(() => {
    for (const session of sessions) session.destroy();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, sessions };
}

const GRPC = { ':status': 200, 'content-type': 'application/grpc' };

async function errorOf(opened: Opened): Promise<string> {
  await waitUntil(() => opened.errors.length > 0);
  assert.equal(opened.errors.length, 1);
  return `${opened.errors[0]?.code}: ${opened.errors[0]?.message}`;
}

test('messages go in both directions, also when they arrive in pieces and together', async () => {
  const server = await startServer();
  after(() => server.server.destroy());
  const opened = open(server.port, MIRROR);
  await waitUntil(() => opened.opened);
  opened.stream.send(Buffer.from('one'));
  opened.stream.send(Buffer.from(''));
  await waitUntil(() => opened.messages.length === 2);
  assert.deepEqual(opened.messages, ['one', '']);
  const all = Buffer.concat(['a', 'bc', 'def'].map((text) => prefixed(Buffer.from(text))));
  const { port } = await raw((stream) => {
    stream.respond(GRPC);
    const pieces = [...all];
    const next = (): void => {
      const piece = pieces.splice(0, 3);
      if (piece.length > 0) stream.write(Buffer.from(piece), () => setImmediate(next));
    };
    next();
  });
  const inPieces = open(port, '/a/b');
  await waitUntil(() => inPieces.messages.length === 3);
  assert.deepEqual(inPieces.messages, ['a', 'bc', 'def']);
});

test('while reading is paused, the windows limit what a server sends', async () => {
  let sent = 0;
  const message = prefixed(Buffer.alloc(900));
  const { port } = await raw((stream) => {
    stream.respond(GRPC);
    const more = (): void => {
      if (stream.destroyed) return;
      sent += message.length;
      stream.write(message, (error) => error ?? more());
    };
    more();
  });
  const opened = open(port, '/a/b');
  await waitUntil(() => opened.messages.length > 0);
  opened.stream.read(false);
  let before = -1;
  await waitUntil(() => {
    const isQuiet = before === sent;
    before = sent;
    return isQuiet;
  });
  const received = opened.messages.length;
  assert.ok(sent - received * message.length < 2 * OPTIONS.streamWindow, `${sent} bytes sent`);
  opened.stream.read(true);
  await waitUntil(() => opened.messages.length > received + 1000);
});

test('the status of a stream that is reset while reading is paused is reported when it is read again', async () => {
  const server = await startServer();
  after(() => server.server.destroy());
  const opened = open(server.port, MIRROR);
  await waitUntil(() => opened.opened);
  opened.stream.send(Buffer.from('one'));
  await waitUntil(() => opened.messages.length === 1);
  opened.stream.read(false);
  server.streams[0]?.end(new CtlError('invalid_argument', 'no'));
  // Another stream of the same process shows that some time has passed.
  const other = open(server.port, MIRROR);
  await waitUntil(() => other.opened);
  other.stream.send(Buffer.from('two'));
  await waitUntil(() => other.messages.length === 1);
  opened.stream.read(true);
  assert.match(await errorOf(opened), /^invalid_argument: .* returned: no$/);
});

test('the windows of the stream and of the connection are those that were asked for', async () => {
  const { port, sessions } = await raw((stream) => stream.respond(GRPC));
  const opened = open(port, '/a/b');
  await waitUntil(() => opened.opened && sessions.length === 1);
  await waitUntil(() => sessions[0]?.remoteSettings.initialWindowSize === OPTIONS.streamWindow);
  await waitUntil(() => sessions[0]?.state.remoteWindowSize === OPTIONS.connectionWindow);
});

test('a message that is too large ends the stream with one line', async () => {
  const { port } = await raw((stream) => {
    stream.respond(GRPC);
    stream.write(prefixed(Buffer.alloc(1001)));
  });
  const opened = open(port, '/a/b');
  assert.match(await errorOf(opened), /^resource_exhausted: .*\(1001 vs 1000\)$/);
  assert.deepEqual(opened.messages, []);
});

test('a server that does not read the answers to its messages loses the stream', async () => {
  const { port } = await raw((stream) => {
    // It sends, and never reads.
    stream.respond(GRPC);
    stream.pause();
  });
  const opened = open(port, '/a/b');
  await waitUntil(() => opened.opened);
  for (let sent = 0; sent < 200 && opened.errors.length === 0; sent++) opened.stream.send(Buffer.alloc(10_000));
  assert.match(await errorOf(opened), /^resource_exhausted: 127\.0\.0\.1:\d+ does not read what it is sent$/);
});

test('what is sent when the stream opens may be large', async () => {
  const { server, port } = await startServer();
  after(() => server.destroy());
  const messages: number[] = [];
  const stream = openClientStream(
    { host: '127.0.0.1', port, tls: undefined, path: MIRROR },
    { ...OPTIONS, maxMessageBytes: 2_000_000 },
    {
      opened: () => {
        for (let sent = 0; sent < 4; sent++) stream.send(Buffer.alloc(700_000));
      },
      message: ({ length }) => void messages.push(length),
      ended: (error) => assert.fail(error),
    },
  );
  after(() => stream.close());
  await waitUntil(() => messages.length === 4);
});

test('the status of a server is the error of the stream', async () => {
  const rows: [answer: (stream: http2.ServerHttp2Stream) => void, error: RegExp][] = [
    [
      (stream) => stream.respond({ ...GRPC, 'grpc-status': '7', 'grpc-message': 'not%20you' }, { endStream: true }),
      /^permission_denied: 127.0.0.1:\d+ returned: not you$/,
    ],
    [
      (stream) => {
        stream.respond(GRPC, { waitForTrailers: true });
        stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '12', 'grpc-message': 'a%' }));
        stream.end();
      },
      /^unimplemented: .* returned: a%$/,
    ],
    [(stream) => stream.respond({ ':status': 503 }, { endStream: true }), /^unavailable: .* returned HTTP 503$/],
    [(stream) => stream.destroy(), /^unavailable: .* cannot be reached: /],
  ];
  for (const [answer, error] of rows) {
    const { port } = await raw(answer);
    assert.match(await errorOf(open(port, '/a/b')), error);
  }
});

test('a server is not pinged when the interval is longer than timers can be', async () => {
  const { port, sessions } = await raw((stream) => stream.respond(GRPC));
  const pings = [0, 0];
  for (const [index, keepaliveMs] of [2 ** 31, 5].entries()) {
    const opened = open(port, '/a/b', { keepaliveMs, keepaliveTimeoutMs: 2 ** 31 });
    await waitUntil(() => opened.opened && sessions.length === index + 1);
    sessions[index]?.on('ping', () => {
      pings[index] = (pings[index] ?? 0) + 1;
    });
  }
  await waitUntil(() => (pings[1] ?? 0) > 4);
  assert.equal(pings[0], 0);
});

test('a server that is away, silent or gone is an error of one line', async () => {
  const { port } = await raw(() => {});
  const opened = open(port, '/a/b', { keepaliveMs: 5, keepaliveTimeoutMs: 60_000 });
  await waitUntil(() => opened.opened);
  opened.stream.close();
  assert.deepEqual(opened.errors, []);
  assert.match(await errorOf(open(1, '/a/b')), /^unavailable: 127.0.0.1:1 cannot be reached: connection refused$/);
  const silent = createServer(() => {});
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
  after(() => void silent.close());
  const at = (silent.address() as AddressInfo).port;
  assert.match(await errorOf(open(at, '/a/b', { connectTimeoutMs: 20 })), /did not answer within 20 ms$/);
});

const VALID = { notBefore: Date.now() - DAY_MS, notAfter: Date.now() + DAY_MS };

/** A server with TLS that greets each stream. Its certificate has the name far.example. */
async function secured() {
  const ca = makeCa({ name: 'one', ...VALID });
  const keys = ecKey('P-256');
  const leaf = makeLeaf({
    ...VALID,
    issuer: ca,
    keys,
    uris: ['spiffe://cluster.local/ns/a/sa/b'],
    dnsNames: ['far.example'],
  });
  const key = keys.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  const server = http2.createSecureServer({ cert: encodePem('CERTIFICATE', leaf), key });
  const sessions: ServerHttp2Session[] = [];
  server.on('session', (session) => sessions.push(session));
  server.on('stream', (stream) => {
    stream.respond(GRPC);
    stream.write(prefixed(Buffer.from('hello')));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  after(() => {
    for (const session of sessions) session.destroy();
    server.close();
  });
  return { ca, port: (server.address() as AddressInfo).port };
}

test('a server is verified even when a variable of Node turns verification off', async (t) => {
  const variable = 'NODE_TLS_REJECT_UNAUTHORIZED';
  const before = process.env[variable];
  t.after(() => {
    if (before === undefined) delete process.env[variable];
    else process.env[variable] = before;
  });
  process.env[variable] = '0';
  const { ca, port } = await secured();
  const other = makeCa({ name: 'other', ...VALID });
  const tls = { client: undefined, serverName: 'far.example' };
  const good = open(port, '/a/b', {}, { ...tls, roots: ca.certificate });
  await waitUntil(() => good.messages.length === 1);
  const bad = open(port, '/a/b', {}, { ...tls, roots: other.certificate });
  assert.match(await errorOf(bad), /^unavailable: .*certificate/);
  assert.deepEqual(bad.messages, []);
});

test('a server whose certificate has another name, or another root, is not asked', async () => {
  const { ca, port } = await secured();
  const tls = { roots: ca.certificate, client: undefined, serverName: 'far.example' };
  const good = open(port, '/a/b', {}, tls);
  await waitUntil(() => good.messages.length === 1);
  assert.match(await errorOf(open(port, '/a/b', {}, { ...tls, serverName: 'near.example' })), /near\.example/);
  const other = makeCa({ name: 'other', ...VALID });
  assert.match(
    await errorOf(open(port, '/a/b', {}, { ...tls, roots: other.certificate })),
    /^unavailable: .*certificate/,
  );
  const checked = { ...tls, serverName: 'near.example', checkServer: () => new Error('its certificate has none of x') };
  assert.match(await errorOf(open(port, '/a/b', {}, checked)), /its certificate has none of x$/);
});
