/** Tokens of a real OAuth server (oidc-provider), and of servers that do not answer as they should. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { Provider } from 'oidc-provider';
import { type HttpCall, httpText } from '../../core/network/http-call.ts';
import { ClientToken } from './client-token.ts';
import { testHost } from './testing/host.ts';

/** It has characters that HTTP Basic authentication of OAuth encodes. */
const SECRET = 's3cr+t /%:';
const LIFETIME_S = 600;

async function listening(t: TestContext, listener: RequestListener): Promise<{ readonly url: string; stop(): void }> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const stop = (): void => {
    server.closeAllConnections();
    server.close();
  };
  t.after(stop);
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, stop };
}

/** A server with one client. */
async function startProvider(t: TestContext) {
  let handle: RequestListener = () => {};
  const { url, stop } = await listening(t, (request, response) => handle(request, response));
  const provider = new Provider(url, {
    clients: [
      {
        client_id: 'mesh policy',
        client_secret: SECRET,
        grant_types: ['client_credentials'],
        redirect_uris: [],
        response_types: [],
        scope: 'check report',
      },
    ],
    scopes: ['check', 'report'],
    features: { devInteractions: { enabled: false }, clientCredentials: { enabled: true } },
    ttl: { ClientCredentials: LIFETIME_S },
  });
  handle = provider.callback();
  const scopeOf = async (token: string) => (await provider.ClientCredentials.find(token))?.scope;
  return { tokenUrl: `${url}/token`, stop, scopeOf };
}

function client(tokenUrl: string, { secret = SECRET, scopes = ['check', 'report'] } = {}) {
  const calls: HttpCall[] = [];
  const host = testHost({
    readFile: async (path) => Buffer.from(path === '/secret' ? `${secret}\n` : assert.fail(path)),
    call: (call, maxBytes) => {
      calls.push(call);
      return httpText(call, maxBytes);
    },
  });
  const written = { clientId: 'mesh policy', clientSecret: '/secret', tokenUrl, scopes, endpointParams: {} };
  return { token: new ClientToken(written, host), host, calls };
}

test('a token is requested once, and again before it expires; meanwhile the one before is used', async (t) => {
  const { tokenUrl, scopeOf } = await startProvider(t);
  const { token, host, calls } = client(tokenUrl);
  const [first, ...others] = await Promise.all(Array.from({ length: 20 }, () => token.current()));
  assert.equal(await scopeOf(first ?? ''), 'check report');
  assert.ok(others.every((each) => each === first));
  host.advance(LIFETIME_S * 500);
  assert.equal(await token.current(), first);
  assert.equal(calls.length, 1);
  host.advance(LIFETIME_S * 300);
  assert.equal(await token.current(), first);
  let next = first;
  while (next === first) {
    await new Promise((resolve) => setImmediate(resolve));
    next = await token.current();
  }
  assert.equal(await scopeOf(next ?? ''), 'check report');
  assert.equal(calls.length, 2);
});

test('a server that wants the secret in the body of requests gets it there, and is remembered', async (t) => {
  const { url } = await listening(t, async (request, response) => {
    const form = new URLSearchParams(await text(request));
    const isKnown = form.get('client_id') === 'mesh policy' && form.get('client_secret') === SECRET;
    const body = isKnown ? { access_token: form.get('scope'), token_type: 'Bearer' } : { error: 'invalid_client' };
    response.writeHead(isKnown && request.headers.authorization === undefined ? 200 : 401).end(JSON.stringify(body));
  });
  const { token, host, calls } = client(`${url}/token`, { scopes: ['check'] });
  assert.equal(await token.current(), 'check');
  assert.equal(calls.length, 2);
  // Without a stated lifetime it is 5 minutes.
  host.advance(300_000);
  assert.equal(await token.current(), 'check');
  assert.equal(calls.length, 3);
});

test('without a valid token there is none: an expired one is not used while the server is gone', async (t) => {
  const { tokenUrl, stop } = await startProvider(t);
  const { token, host, calls } = client(tokenUrl);
  const first = await token.current();
  stop();
  host.advance((LIFETIME_S - 2) * 1000);
  assert.equal(await token.current(), first);
  host.advance(2_000);
  await assert.rejects(token.current(), { code: 'unavailable' });
  const sent = calls.length;
  // At once: not another request for each call.
  await assert.rejects(token.current(), { code: 'unavailable' });
  assert.equal(calls.length, sent);
  host.advance(1_000);
  await assert.rejects(token.current(), { code: 'unavailable' });
  assert.equal(calls.length, sent + 1);
});

test('a server that fails is asked less and less often, and again soon after a success', async (t) => {
  let status = 503;
  const { url } = await listening(t, (_, response) => {
    response.writeHead(status).end(JSON.stringify({ access_token: 'a', expires_in: 60 }));
  });
  const { token, host, calls } = client(`${url}/token`);
  const asked = async (seconds: number): Promise<number> => {
    const before = calls.length;
    for (let second = 0; second < seconds; second++) {
      await assert.rejects(token.current(), { code: 'unavailable' });
      host.advance(1_000);
    }
    return calls.length - before;
  };
  // After 0, 1, 3, 7, 15, 31 s, and then each 30 s.
  assert.equal(await asked(60), 6);
  assert.equal(await asked(300), 10);
  status = 200;
  host.advance(30_000);
  assert.equal(await token.current(), 'a');
  host.advance(60_000);
  status = 503;
  assert.equal(await asked(4), 3);
});

test('a token that has expired before it arrives is not used', async (t) => {
  let late = 11_000;
  const { url } = await listening(t, (_, response) => {
    host.advance(late);
    response.end(JSON.stringify({ access_token: 'a', expires_in: 10 }));
  });
  const { token, host } = client(`${url}/token`);
  await assert.rejects(token.current(), /a token that has expired/);
  late = 5_000;
  host.advance(1_000);
  assert.equal(await token.current(), 'a');
});

test('a token of a short lifetime is used for more than one call, and null is no stated lifetime', async (t) => {
  for (const [lifetime, usedMs] of [
    [1, 700],
    [null, 200_000],
  ] as const) {
    const body = JSON.stringify({ access_token: 'a', expires_in: lifetime });
    const { url } = await listening(t, (_, response) => void response.end(body));
    const { token, host, calls } = client(`${url}/token`);
    assert.equal(await token.current(), 'a');
    host.advance(usedMs);
    assert.equal(await token.current(), 'a');
    assert.equal(calls.length, 1);
  }
});

test('a refused token is requested again, at most once in a while', async (t) => {
  const { tokenUrl } = await startProvider(t);
  const { token, host } = client(tokenUrl);
  const first = await token.current();
  token.refused();
  assert.equal(await token.current(), first);
  host.advance(10_001);
  token.refused();
  assert.notEqual(await token.current(), first);
});

test('a wrong secret is an error that does not contain it', async (t) => {
  const { tokenUrl } = await startProvider(t);
  const { token } = client(tokenUrl, { secret: 'wrong-secret' });
  await assert.rejects(token.current(), (error: Error) => {
    assert.match(error.message, /\/token returned HTTP 401: invalid_client$/);
    assert.ok(!error.message.includes('wrong-secret'));
    return true;
  });
});

test('answers that are no token are errors, and nothing of them is shown', async (t) => {
  const answers: readonly (readonly [status: number, body: string, message: RegExp])[] = [
    [200, 'secret', /no token that can be sent/],
    [200, '{"access_token": "secret\\r\\nx: y", "expires_in": 60}', /no token that can be sent/],
    [200, '{"access_token": "secret", "expires_in": -1}', /a token that has expired/],
    [200, '{"access_token": "secret", "expires_in": "soon"}', /a token that has expired/],
    [302, '', /HTTP 302$/],
    [503, 'secret', /HTTP 503$/],
    [400, '{"error": "secret, and more"}', /HTTP 400$/],
    [200, 'secret'.repeat(20_000), /longer than/],
  ];
  for (const [status, body, message] of answers) {
    const { url } = await listening(t, (_, response) => {
      response.writeHead(status, status === 302 ? { location: 'http://127.0.0.1:1/' } : {}).end(body);
    });
    await assert.rejects(client(`${url}/token`).token.current(), (error: Error) => {
      assert.match(error.message, message);
      assert.ok(!error.message.includes('secret'));
      return true;
    });
  }
});
