/**
 * AuthorizationPolicy at gateways: a policy of a gateway governs all services that are bound to it, over HTTP, TCP and
 * TLS that is passed through. Plugins that `--plugins` leaves out have no effect.
 */
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { createServer } from 'node:tls';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { stringify } from 'yaml';
import { rawCall, startDiscovery, startEcho, startTcpEcho, tempDir } from '../harness/index.ts';
import {
  A,
  BYTES,
  bytes,
  type Call,
  deny,
  type Gateway,
  HTTP,
  HTTPS,
  ISSUER,
  operation,
  policy,
  SCENARIOS,
  source,
  TLS,
  tls,
} from './support/authorization-edge.ts';
import { type Expectation, ExpectationTable } from './support/authorization-table.ts';
import { type Document, endpoints, resource, service } from './support/config.ts';
import { planMesh, startMesh, type TestMesh } from './support/mesh.ts';
import { lazy, suiteOwner } from './support/suite.ts';
import { tlsGreeting } from './support/traffic.ts';

const address = planMesh();
const CERTIFICATES = join(import.meta.dirname, '../golden-harness/certs');
const GATEWAYS: Readonly<Record<Gateway, string>> = { front: address(10), side: address(11) };

interface World extends TestMesh {
  setTrustedProxies(count: number): Promise<void>;
  token(claims: Document): Promise<string>;
}

const owner = suiteOwner();
const shared = lazy<World>();
const table = new ExpectationTable();

function backend(name: string, port: number, protocol: string): Document[] {
  return [
    service(name, { ports: [{ name: protocol, port: 7480 }] }),
    endpoints(name, ['127.0.0.1'], [{ name: protocol, port }]),
  ];
}

function gateway(name: Gateway): Document[] {
  const bind = GATEWAYS[name];
  const to = (host: string) => [{ destination: { host: `${host}.default.svc.cluster.local`, port: { number: 7480 } } }];
  const gateways = [`edge/${name}`];
  return [
    resource(
      'Gateway',
      name,
      {
        selector: { app: name },
        servers: [
          { hosts: ['*'], port: { number: HTTP, name: 'http', protocol: 'HTTP' }, bind },
          { hosts: ['*'], port: { number: BYTES, name: 'tcp', protocol: 'TCP' }, bind },
          {
            hosts: ['*'],
            port: { number: HTTPS, name: 'https', protocol: 'HTTPS' },
            tls: {
              mode: 'SIMPLE',
              serverCertificate: join(CERTIFICATES, 'tls.crt'),
              privateKey: join(CERTIFICATES, 'tls.key'),
            },
            bind,
          },
          { hosts: ['*'], port: { number: TLS, name: 'tls', protocol: 'TLS' }, tls: { mode: 'PASSTHROUGH' }, bind },
        ],
      },
      'edge',
    ),
    resource('VirtualService', `a-${name}`, { hosts: ['a.example'], gateways, http: [{ route: to('a') }] }),
    resource('VirtualService', `b-${name}`, { hosts: ['b.example'], gateways, http: [{ route: to('b') }] }),
    resource('VirtualService', `bytes-${name}`, {
      hosts: ['*'],
      gateways,
      tcp: [{ match: [{ port: BYTES }], route: to('bytes') }],
      tls: [{ match: [{ port: TLS, sniHosts: ['a.secret', 'b.secret'] }], route: to('secret') }],
    }),
  ];
}

before(async () => {
  const [a, b] = await Promise.all(['a', 'b'].map((name) => startEcho(owner, { name })));
  const bytes = await startTcpEcho(owner, { name: 'bytes' });
  const [key, cert] = ['tls.key', 'tls.crt'].map((name) => readFileSync(join(CERTIFICATES, name)));
  const secret = createServer({ key, cert }, (socket) => {
    socket.on('error', () => socket.destroy());
    socket.end('secret\n');
  });
  const secretPort = await new Promise<number>((resolve) => {
    secret.listen(0, '127.0.0.1', () => resolve((secret.address() as { port: number }).port));
  });
  owner.after(() => void secret.close());

  const { publicKey, privateKey } = await generateKeyPair('RS256');
  const jwks = JSON.stringify({ keys: [{ ...(await exportJWK(publicKey)), alg: 'RS256', use: 'sig' }] });
  const meshConfig = join(await tempDir(owner), 'mesh.yaml');
  const setTrustedProxies = (numTrustedProxies: number) =>
    writeFile(meshConfig, stringify({ defaultConfig: { gatewayTopology: { numTrustedProxies } } }));
  await setTrustedProxies(0);
  const mesh = await startMesh(owner, address, {
    flags: ['--meshConfig', meshConfig],
    files: {
      services: [
        ...backend('a', a?.port ?? 0, 'http'),
        ...backend('b', b?.port ?? 0, 'http'),
        ...backend('bytes', bytes.port, 'tcp'),
        ...backend('secret', secretPort, 'tls'),
      ],
      gateways: [...gateway('front'), ...gateway('side')],
      tokens: [resource('RequestAuthentication', 'tokens', { jwtRules: [{ issuer: ISSUER, jwks }] }, 'edge')],
    },
  });
  for (const [name, ip] of Object.entries(GATEWAYS)) {
    await mesh.startProxy({ name, type: 'router', namespace: 'edge', address: ip, mode: 'delta' });
  }
  const token = (claims: Document) =>
    new SignJWT({ iss: ISSUER, sub: 'ann', ...claims })
      .setProtectedHeader({ alg: 'RS256' })
      .setExpirationTime('1h')
      .sign(privateKey);
  shared.set({ ...mesh, setTrustedProxies, token });
});
after(() => table.print('Authorization at gateways'));

/** The name of the application that answered, otherwise the status, or `closed`. */
async function outcome(call: Call): Promise<string> {
  const {
    at = 'front',
    host = 'a.example',
    path = '/',
    method = 'GET',
    headers = [],
    token,
    from,
    over,
    sni = host,
  } = call;
  const target = { address: GATEWAYS[at], ...(from === undefined ? {} : { localAddress: from }) };
  if (over === 'tls') return tlsGreeting(target.address, TLS, host).catch(() => 'closed');
  if (over === 'bytes') {
    // The application speaks first. Envoy passes that on, and decides about the connection by the client's first bytes.
    const { text, end } = await rawCall({ ...target, port: BYTES, send: 'what is said', until: 'what is said' });
    return end === 'enough' ? (text.split('\n')[0] ?? '') : 'closed';
  }
  const bearer = token === 'bad' ? 'eyJhbGciOiJub25lIn0.e30.' : token && (await shared.get().token(token));
  const lines = [
    `${method} ${path} HTTP/1.1`,
    `Host: ${host}`,
    'Connection: close',
    ...(bearer === undefined ? [] : [`Authorization: Bearer ${bearer}`]),
    ...headers,
  ];
  const { status, text } = await rawCall({
    ...target,
    ...(over === 'https' ? { port: HTTPS, tls: { serverName: sni, alpn: ['http/1.1'] } } : { port: HTTP }),
    send: `${lines.join('\r\n')}\r\n\r\n`,
  });
  return status === 200 ? (/"name":"(\w+)"/.exec(text)?.[1] ?? '200') : String(status);
}

function expectations(what: string, calls: readonly (readonly [Call, string])[]): Expectation[] {
  return calls.map(([call, expected]) => ({
    group: 'gateway',
    what,
    request: JSON.stringify(call),
    expected,
    run: () => outcome(call),
  }));
}

/** Waits until no policy applies: otherwise the next one may seem to have arrived too early. */
async function withoutPolicies(): Promise<void> {
  await shared.get().config.remove('policies');
  const calls: Call[] = [A, { ...A, at: 'side', method: 'DELETE' }, { ...A, path: '/admin' }, bytes, tls('b.secret')];
  const answers = ['a', 'a', 'a', 'bytes', 'secret'];
  await table.settle(
    expectations(
      'deleted again',
      calls.map((call, index) => [call, answers[index] ?? ''] as const),
    ),
  );
}

describe('authorization at gateways', () => {
  for (const { what, policies, calls } of SCENARIOS) {
    test(what, async () => {
      await shared.get().config.apply('policies', ...policies);
      await table.settle(expectations(what, calls));
      await withoutPolicies();
    });
  }

  test('client addresses are those that a trusted proxy reports', async () => {
    const { config, setTrustedProxies } = shared.get();
    await setTrustedProxies(1);
    await config.apply('policies', policy('addresses', deny(source({ notRemoteIpBlocks: ['10.1.0.0/16'] }))));
    await table.settle(
      expectations('a trusted proxy', [
        [{ ...A, headers: ['X-Forwarded-For: 10.1.2.3'] }, 'a'],
        [{ ...A, headers: ['X-Forwarded-For: 10.2.2.3'] }, '403'],
        // The client itself wrote all entries before the last one.
        [{ ...A, headers: ['X-Forwarded-For: 10.1.2.3, 10.2.2.3'] }, '403'],
        [A, '403'],
      ]),
    );
    await setTrustedProxies(0);
    await withoutPolicies();
  });
});

test('plugins that --plugins leaves out have no effect', async (t) => {
  const { config, discovery } = shared.get();
  await config.apply('policies', policy('admin', deny(operation({ paths: ['/admin'] }))));
  await table.settle(
    expectations('all plugins', [
      [{ token: 'bad' }, '401'],
      [{ path: '/admin' }, '403'],
    ]),
  );
  const { ports } = discovery();
  await discovery().stop();
  for (const [plugins, token, path] of [
    ['authn,health,policy', '401', 'a'],
    ['authz,health,policy', 'a', '403'],
    ['health,policy', 'a', 'a'],
  ] as const) {
    const other = await startDiscovery(t, { configDir: config.path, ports, flags: ['--plugins', plugins] });
    await table.settle(
      expectations(`--plugins ${plugins}`, [
        [{ token: 'bad' }, token],
        [{ path: '/admin' }, path],
        [A, 'a'],
      ]),
    );
    await other.stop();
  }
});
