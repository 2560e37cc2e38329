/**
 * One fetch from a key server, with real servers on loopback: which responses are accepted, and how the others fail.
 */
import assert from 'node:assert/strict';
import { createServer, type RequestListener, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { describe, it, type TestContext } from 'node:test';
import { ecKey, testIssuer } from '../testing/credentials.ts';
import { type GuardedFetchOptions, guardedFetch } from './guarded-fetch.ts';
import { KEY_SET_LIMITS, loadKeys } from './load-keys.ts';
import { pki } from './testing/pki.ts';
import { usableKeys } from './usable-keys.ts';

const { jwks: KEYS } = await testIssuer('one', ecKey('P-256'));
const TEXT = usableKeys(KEYS);

async function listen(t: TestContext, server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

/** A server's `http://127.0.0.1:<port>`. */
async function serve(t: TestContext, listener: RequestListener): Promise<string> {
  return `http://127.0.0.1:${await listen(t, createServer(listener))}`;
}

const keysOf: RequestListener = (_, response) => response.end(JSON.stringify(KEYS));

interface LoadOptions extends GuardedFetchOptions {
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

function load(reference: string, { timeoutMs, signal, ...options }: LoadOptions = {}): Promise<string> {
  const limits = { ...KEY_SET_LIMITS, ...(timeoutMs === undefined ? {} : { timeoutMs }) };
  return loadKeys(reference, guardedFetch(options), signal ?? new AbortController().signal, limits);
}

async function refused(loading: Promise<string>): Promise<string> {
  return loading.then(
    () => assert.fail('it was taken'),
    (error: Error) => error.message,
  );
}

/** A promise and its resolve function. */
const closed = () => Promise.withResolvers<void>();

/** Loads with a short limit until a request has reached the server in time, as not each does on a crowded machine. */
async function abandoned(server: string, timeoutMs: number, came: () => boolean): Promise<void> {
  const message = new RegExp(`: no response within ${timeoutMs / 1_000} s$`);
  do assert.match(await refused(load(server, { timeoutMs })), message);
  while (!came());
}

describe('a key server', () => {
  it('gives its keys in one request', async (t) => {
    const asked: (string | undefined)[] = [];
    const server = await serve(t, (request, response) => {
      asked.push(`${request.method} ${request.url} ${request.headers.host} ${request.headers.accept}`);
      keysOf(request, response);
    });
    assert.equal(await load(`${server}/keys?a=b#c`), TEXT);
    assert.deepEqual(asked, [`GET /keys?a=b ${server.slice(7)} application/json`]);
  });

  it('that cannot be reached is named in the error', async (t) => {
    const port = await listen(
      t,
      createServer().on('connection', (socket) => socket.destroy()),
    );
    assert.match(
      await refused(load(`http://127.0.0.1:${port}/keys`)),
      /^http:\/\/127\.0\.0\.1:\d+\/keys: (socket hang up|read ECONNRESET|write (EPIPE|ECONNRESET))$/,
    );
    assert.match(
      await refused(load('http://127.0.0.1:1/keys')),
      /^http:\/\/127\.0\.0\.1:1\/keys: connect ECONNREFUSED 127\.0\.0\.1:1$/,
    );
  });

  for (const [what, listener, reason] of [
    ['an error', (_, response) => response.writeHead(503).end(), /: returned HTTP 503$/],
    ['nothing', (_, response) => response.writeHead(204).end(), /: returned HTTP 204$/],
    ['HTML', (_, response) => response.end('<html>'), /: did not return JSON$/],
    ['no key set', (_, response) => response.end('{}'), /: did not return a JSON Web Key Set$/],
    [
      'a redirect without a location',
      (_, response) => response.writeHead(302).end(),
      /: redirects without a valid location$/,
    ],
    ['no HTTP', (_, response) => response.socket?.end('HELLO'), /Parse Error/],
  ] as readonly (readonly [string, RequestListener, RegExp])[]) {
    it(`that returns ${what} is reported as such`, async (t) => {
      assert.match(await refused(load(await serve(t, listener))), reason);
    });
  }

  it('that hangs is abandoned after the time limit', async (t) => {
    const gone = closed();
    let asked = 0;
    const server = await serve(t, (_, response) => {
      asked++;
      response.on('close', gone.resolve);
    });
    await abandoned(server, 50, () => asked > 0);
    await gone.promise;
  });

  it('that answers slowly is abandoned after the time limit', async (t) => {
    const gone = closed();
    let asked = 0;
    const server = await serve(t, (_, response) => {
      asked++;
      response.writeHead(200).write('{');
      const drip = setInterval(() => response.write(' '), 5);
      response.on('close', () => {
        clearInterval(drip);
        gone.resolve();
      });
    });
    await abandoned(server, 100, () => asked > 0);
    await gone.promise;
  });

  it('that redirects slowly has one time limit for all redirects', async (t) => {
    const server = await serve(t, (_, response) => {
      setTimeout(() => response.writeHead(302, { location: '/on' }).end(), 60);
    });
    assert.match(await refused(load(server, { timeoutMs: 100 })), /: no response within 0\.1 s$/);
  });

  it('is abandoned when its keys are no longer wanted', async (t) => {
    const [came, gone] = [closed(), closed()];
    const server = await serve(t, (_, response) => {
      came.resolve();
      response.on('close', gone.resolve);
    });
    const ending = new AbortController();
    const loading = refused(load(server, { signal: ending.signal }));
    await came.promise;
    ending.abort();
    await Promise.all([loading, gone.promise]);
  });

  const TEN_MEGABYTES = 10 * 1024 * 1024;

  it('that announces a response of 10 MB is not read', async (t) => {
    const gone = closed();
    const server = await serve(t, (_, response) => {
      response.writeHead(200, { 'content-length': TEN_MEGABYTES }).write('{');
      response.on('close', gone.resolve);
    });
    assert.match(await refused(load(server)), /: returned more than 1048576 bytes$/);
    await gone.promise;
  });

  it('that sends 10 MB without announcing it is abandoned after the limit', async (t) => {
    let written = 0;
    const gone = closed();
    const server = await serve(t, (_, response) => {
      const chunk = Buffer.alloc(64 * 1024, ' ');
      const write = (): void => {
        while (!response.destroyed && written < TEN_MEGABYTES) {
          written += chunk.length;
          if (!response.write(chunk)) return;
        }
        response.end();
      };
      response.on('drain', write).on('close', gone.resolve);
      write();
    });
    assert.match(await refused(load(server)), /: returned more than 1048576 bytes$/);
    await gone.promise;
    // Bytes in the socket buffers of the system come on top.
    assert.ok(written < TEN_MEGABYTES, `${written} bytes were written`);
  });

  it('may redirect three times, also to another server', async (t) => {
    const last = await serve(t, keysOf);
    let hops = 0;
    const server = await serve(t, (_, response) => {
      hops++;
      response.writeHead(hops === 1 ? 301 : 307, { location: hops < 3 ? '/next' : `${last}/keys` }).end();
    });
    assert.equal(await load(server), TEXT);
    assert.equal(hops, 3);
  });

  it('that redirects endlessly is abandoned after the third redirect', async (t) => {
    let hops = 0;
    const server = await serve(t, (_, response) => {
      hops++;
      response.writeHead(302, { location: '/' }).end();
    });
    assert.match(await refused(load(server)), /: returned HTTP 302, after 3 redirects$/);
    assert.equal(hops, 4);
  });

  for (const [location, reason] of [
    [
      'http://169.254.169.254/latest/meta-data/',
      /169\.254\.169\.254 has the address 169\.254\.169\.254, to which connections are not allowed$/,
    ],
    ['http://[fd00:ec2::254]/', /fd00:ec2::254, to which connections are not allowed$/],
    ['http://[::ffff:169.254.169.254]/', /has the address ::ffff:a9fe:a9fe, to which connections are not allowed/],
    ['http://0xa9fea9fe/', /has the address 169\.254\.169\.254, to which connections are not allowed/],
    ['http://2852039166/', /has the address 169\.254\.169\.254, to which connections are not allowed/],
    [
      'http://metadata.test/',
      /metadata\.test has the address 169\.254\.169\.254, to which connections are not allowed/,
    ],
    ['file:///etc/passwd', /redirects from http: to file:$/],
    ['data:application/json,{}', /redirects from http: to data:$/],
  ] as const) {
    it(`may not redirect to ${location}`, async (t) => {
      const lookup = async () => [{ address: '169.254.169.254', family: 4 }];
      const server = await serve(t, (_, response) => response.writeHead(302, { location }).end());
      assert.match(await refused(load(server, { lookup })), reason);
    });
  }

  it('may have a name, which is resolved once and connected to at the checked address', async (t) => {
    const server = await serve(t, keysOf);
    const { port } = new URL(server);
    const asked: string[] = [];
    const lookup = async (hostname: string) => {
      asked.push(hostname);
      // A hostile name server answers with another address the second time.
      return [{ address: asked.length === 1 ? '127.0.0.1' : '169.254.169.254', family: 4 }];
    };
    assert.equal(await load(`http://keys.test:${port}/`, { lookup }), TEXT);
    assert.deepEqual(asked, ['keys.test']);
    const message = await refused(load(`http://keys.test:${port}/`, { lookup }));
    assert.equal(
      message,
      `http://keys.test:${port}/: keys.test has the address 169.254.169.254, to which connections are not allowed`,
    );
  });

  it('is connected to at its allowed addresses, when its name has others as well', async (t) => {
    const { port } = new URL(await serve(t, keysOf));
    const lookup = async () => [
      { address: 'fe80::1', family: 6 },
      { address: '169.254.169.254', family: 4 },
      { address: '127.0.0.1', family: 4 },
    ];
    assert.equal(await load(`http://keys.test:${port}/`, { lookup }), TEXT);
  });

  it('with an unknown name is named in the error', async () => {
    const lookup = () => Promise.reject(new Error('getaddrinfo ENOTFOUND keys.test'));
    assert.equal(
      await refused(load('https://keys.test/k', { lookup })),
      'https://keys.test/k: getaddrinfo ENOTFOUND keys.test',
    );
    assert.match(await refused(load('https://keys.test/k', { lookup: async () => [] })), /keys\.test has no address$/);
  });

  it('gets the password of its URL, which no message tells, nor the query', async (t) => {
    let seen: string | undefined;
    const server = await serve(t, ({ headers }, response) => {
      seen = headers.authorization;
      response.writeHead(403).end();
    });
    const { host } = new URL(server);
    assert.equal(
      await refused(load(`http://me:secret@${host}/keys?token=secret`)),
      `http://${host}/keys: returned HTTP 403`,
    );
    assert.equal(seen, `Basic ${btoa('me:secret')}`);
  });

  it('is trusted over TLS by its certificate, for its name', async (t) => {
    const { ca, cert, key } = pki('keys.test');
    const port = await listen(t, createTlsServer({ cert, key }, keysOf));
    const lookup = async () => [{ address: '127.0.0.1', family: 4 }];
    assert.equal(await load(`https://keys.test:${port}/`, { lookup, ca }), TEXT);
    assert.match(
      await refused(load(`https://other.test:${port}/`, { lookup, ca })),
      /does not match certificate's altnames/,
    );
    assert.match(await refused(load(`https://keys.test:${port}/`, { lookup })), /certificate/);
  });

  it('may not redirect from TLS to plain text', async (t) => {
    const { ca, cert, key } = pki('keys.test');
    const plain = await serve(t, keysOf);
    const redirect: RequestListener = (_, response) => response.writeHead(302, { location: plain }).end();
    const port = await listen(t, createTlsServer({ cert, key }, redirect));
    const lookup = async () => [{ address: '127.0.0.1', family: 4 }];
    assert.match(await refused(load(`https://keys.test:${port}/`, { lookup, ca })), /redirects from https: to http:$/);
  });

  for (const reference of ['ftp://x/', 'file:///etc/passwd', 'keys', '']) {
    it(`cannot be ${JSON.stringify(reference)}`, async () => {
      assert.match(await refused(load(reference)), /is not an http or https URL$/);
    });
  }
});

describe('an issuer without jwksUri', () => {
  /** Serves keys, and a discovery document that contains the server's address. */
  async function issuer(t: TestContext, document: (self: string) => unknown): Promise<string> {
    let self = '';
    self = await serve(t, (request, response) => {
      if (request.url?.endsWith('/.well-known/openid-configuration')) response.end(JSON.stringify(document(self)));
      else if (request.url === '/keys') keysOf(request, response);
      else response.writeHead(404).end();
    });
    return self;
  }

  it('names the URL of its keys', async (t) => {
    const self = await issuer(t, (at) => ({ issuer: at, jwks_uri: `${at}/keys` }));
    assert.equal(await load(`oidc:${self}`), TEXT);
  });

  it('may have a path, and a slash at its end', async (t) => {
    const self = await issuer(t, (at) => ({ issuer: `${at}/realm/`, jwks_uri: `${at}/keys` }));
    assert.equal(await load(`oidc:${self}/realm/`), TEXT);
    assert.match(await refused(load(`oidc:${self}/realm`)), /is the document of another issuer/);
  });

  for (const [what, document, reason] of [
    [
      'is another',
      { issuer: 'https://x', jwks_uri: 'https://x/k' },
      /openid-configuration: is the document of another issuer, "https:\/\/x"$/,
    ],
    ['does not say', {}, /is not a discovery document$/],
  ] as const) {
    it(`has no keys when its document ${what}`, async (t) => {
      assert.match(await refused(load(`oidc:${await issuer(t, () => document)}`)), reason);
    });
  }

  it('may not have them at a forbidden address', async (t) => {
    const self = await issuer(t, (at) => ({ issuer: at, jwks_uri: 'http://169.254.169.254/keys' }));
    assert.match(await refused(load(`oidc:${self}`)), /to which connections are not allowed$/);
    const other = await issuer(t, (at) => ({ issuer: at, jwks_uri: 'file:///etc/passwd' }));
    assert.match(await refused(load(`oidc:${other}`)), /"file:\/\/\/etc\/passwd" is not an http or https URL$/);
  });

  it('that is reached over TLS must have its keys behind TLS', async (t) => {
    const { ca, cert, key } = pki('issuer.test');
    const plain = await serve(t, keysOf);
    let self = '';
    const server = createTlsServer({ cert, key }, (_, response) => {
      response.end(JSON.stringify({ issuer: self, jwks_uri: plain }));
    });
    self = `https://issuer.test:${await listen(t, server)}`;
    const lookup = async () => [{ address: '127.0.0.1', family: 4 }];
    assert.match(await refused(load(`oidc:${self}`, { lookup, ca })), /its jwks_uri must use https$/);
  });
});
