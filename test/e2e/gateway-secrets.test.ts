/**
 * Certificates of gateways by `credentialName`: real Envoys with identities of the mesh serve with Secrets of their
 * namespace, and rotate them without losing a connection. Other callers: `gateway-secrets-refused.test.ts`.
 */
import assert from 'node:assert/strict';
import { createServer as createHttpsServer } from 'node:https';
import { before, test } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { resource } from './support/config.ts';
import { holdConnection, https } from './support/https-client.ts';
import { secret, tlsSecret } from './support/secrets-world.ts';
import {
  address,
  at,
  BACKEND_PORT,
  CLIENT,
  clients,
  config,
  eventually,
  findings,
  gateway,
  listenerStats,
  make,
  owner,
  refused,
  root,
  STRANGER,
  served,
  server,
  shared,
  simple,
  startTenants,
  world,
} from './support/tenants.ts';

before(startTenants);

test('servers of one port have their own credentials, with and without client certificates', async () => {
  const [a, b, mutual, apart, generic] = ['a', 'b', 'mutual', 'apart', 'generic'].map((name) =>
    make(`${name}.example`),
  );
  assert.ok(a && b && mutual && apart && generic);
  await config().apply(
    'secrets',
    tlsSecret('a-cert', 'edge', a),
    tlsSecret('b-cert', 'edge', b),
    tlsSecret('mutual-cert', 'edge', mutual, { 'ca.crt': clients.pem }),
    tlsSecret('apart-cert', 'edge', apart),
    secret('apart-cert-cacert', 'edge', 'Opaque', { cacert: clients.pem }),
    secret('generic-cert', 'edge', 'Opaque', { cert: generic.leaf, key: generic.key, cacert: clients.pem }),
  );
  await config().apply(
    'gateway',
    gateway([
      server('a', ['a.example'], simple('a-cert')),
      server('b', ['b.example'], simple('kubernetes://b-cert')),
      server('mutual', ['mutual.example'], { mode: 'MUTUAL', credentialName: 'mutual-cert' }),
      server('apart', ['apart.example'], { mode: 'MUTUAL', credentialName: 'apart-cert' }),
      server('generic', ['generic.example'], { mode: 'OPTIONAL_MUTUAL', credentialNames: ['edge/generic-cert'] }),
    ]),
  );
  // An API server sends each Secret on its own.
  await eventually(() => served('a.example', a.leaf));
  await eventually(() => served('b.example', b.leaf));
  for (const [host, { leaf }] of [
    ['mutual.example', mutual],
    ['apart.example', apart],
  ] as const) {
    await eventually(() => served(host, leaf, { client: CLIENT }));
    await refused(host);
    await refused(host, { client: STRANGER });
  }
  await eventually(() => served('generic.example', generic.leaf, { client: CLIENT }));
  await served('generic.example', generic.leaf);
  await refused('generic.example', { client: STRANGER });
  await refused('c.example');
});

test('a new certificate under load loses no connection, fails no handshake and changes no listener', async () => {
  let current = make('a.example');
  await config().apply('secrets', tlsSecret('a-cert', 'edge', current));
  await config().apply('gateway', gateway([server('a', ['a.example'], simple('a-cert'))]));
  await eventually(() => served('a.example', current.leaf));
  const held = await holdConnection(at('a.example'));
  owner.after(() => held.close());
  const failures: string[] = [];
  const seen = new Set<string>();
  let [going, requests] = [true, 0];
  const load = async (one: () => Promise<void>) => {
    while (going) {
      await one().catch((error: unknown) => void failures.push(String(error)));
      requests++;
    }
  };
  const loops = [
    load(async () => assert.equal(await held.get(), 200)),
    load(async () => {
      const { status, certificate } = await https(at('a.example'));
      assert.equal(status, 200);
      seen.add(certificate);
    }),
  ];
  const listeners = await listenerStats();
  const all = [current.leaf];
  for (let rotation = 0; rotation < 5; rotation++) {
    current = make('a.example');
    all.push(current.leaf);
    await config().apply('secrets', tlsSecret('a-cert', 'edge', current));
    await eventually(() => assert.ok(seen.has(current.leaf)));
  }
  // On a crowded machine there were few during the rotations: with as many after them, each loop has had several.
  await eventually(() => assert.ok(requests > 50, `${requests} requests`));
  going = false;
  await Promise.all(loops);
  assert.deepEqual(failures, []);
  assert.deepEqual([...seen].sort(), all.sort());
  assert.equal(await listenerStats(), listeners);
});

test('a missing, invalid or removed Secret affects only its own server, which recovers by itself', async () => {
  const [a, b, next] = [make('a.example'), make('b.example'), make('b.example')];
  const all = make('c.example');
  await config().apply('secrets', tlsSecret('a-cert', 'edge', a), tlsSecret('all-cert', 'edge', all));
  await config().apply(
    'gateway',
    gateway([
      server('a', ['a.example'], simple('a-cert')),
      server('b', ['b.example'], { mode: 'MUTUAL', credentialName: 'b-cert' }),
      server('all', ['*.example'], simple('all-cert')),
    ]),
  );
  await eventually(() => served('a.example', a.leaf));
  await eventually(() => served('c.example', all.leaf));
  const held = await holdConnection(at('a.example'));
  owner.after(() => held.close());
  // The server for all names, which requires no client certificate, must not answer.
  await refused('b.example');
  assert.match(await findings(), /Gateway edge\/front, server b: waits for Secret edge\/b-cert/);
  await eventually(() =>
    assert.match(
      world().discovery().output(),
      /\twarn\tmodel\tnot served: Gateway edge\/front, server b: waits for Secret/,
    ),
  );

  const withAuthorities = { 'ca.crt': clients.pem };
  await config().apply('b', tlsSecret('b-cert', 'edge', b, withAuthorities));
  await eventually(() => served('b.example', b.leaf, { client: CLIENT }));
  assert.doesNotMatch(await findings(), /waits for Secret/);

  // A key of another certificate: the last good version stays in force.
  await config().apply('b', tlsSecret('b-cert', 'edge', { ...next, key: b.key }, withAuthorities));
  await eventually(async () => {
    const { body } = await world().discovery().http('/debug/configz');
    assert.match(body, /expected the key of the certificate in tls.crt/);
  });
  await served('b.example', b.leaf, { client: CLIENT });
  await config().apply('b', tlsSecret('b-cert', 'edge', next, withAuthorities));
  await eventually(() => served('b.example', next.leaf, { client: CLIENT }));

  await config().remove('b');
  await eventually(() => refused('b.example', { client: CLIENT }));
  await served('a.example', a.leaf);
  assert.equal(await held.get(), 200);
  await served('c.example', all.leaf);
});

test('an outage of the control plane loses nothing, and afterwards nothing is sent again', async () => {
  const [own, next] = [make('a.example'), make('a.example')];
  await config().apply('secrets', tlsSecret('a-cert', 'edge', own));
  await config().apply('gateway', gateway([server('a', ['a.example'], simple('a-cert'))]));
  await eventually(() => served('a.example', own.leaf));
  const { gateway: agent } = shared.get();
  // Drained listeners of other tests still subscribe to secrets, which it reports again as missing.
  const updates = () => agent.admin('/stats?filter=(sds.kubernetes_a-cert|cds|lds).update_(success|rejected)');
  const before = await updates();
  assert.match(before, /kubernetes_a-cert.update_success: [1-9]/);
  await world().discovery().stop();
  await served('a.example', own.leaf);
  const discovery = await world().restart();
  await eventually(async () => assert.match((await discovery.http('/debug/syncz')).body, /"secret_state": "SYNCED"/));
  await served('a.example', own.leaf);
  assert.equal(await updates(), before);
  await config().apply('secrets', tlsSecret('a-cert', 'edge', next));
  await eventually(() => served('a.example', next.leaf));
});

test('a secret that Envoy rejects keeps its last good version, and nothing else is affected', async () => {
  const [own, next] = [make('a.example'), make('a.example')];
  await config().apply('secrets', tlsSecret('a-cert', 'edge', own));
  await config().apply('gateway', gateway([server('a', ['a.example'], simple('a-cert'))]));
  await eventually(() => served('a.example', own.leaf));
  await config().apply('secrets', tlsSecret('a-cert', 'edge', next, { 'tls.ocsp-staple': 'no staple' }));
  await eventually(async () => {
    const { body } = await world().discovery().http('/debug/syncz');
    assert.match(body, /"secret_state": "REJECTED"/);
  });
  await served('a.example', own.leaf);
  await config().apply('secrets', tlsSecret('a-cert', 'edge', next));
  await eventually(() => served('a.example', next.leaf));
});

test('as a client a gateway shows the certificate of a Secret, rotates it, and stops without one', async () => {
  const [own, first, second] = [make('a.example'), make('first.example'), make('second.example')];
  const target = make('secure.example');
  const asked: string[] = [];
  const backend = createHttpsServer(
    { cert: target.leaf, key: target.key, ca: root.pem, requestCert: true, rejectUnauthorized: true },
    ({ socket }, response) => {
      asked.push((socket as TLSSocket).getPeerCertificate().subjectaltname ?? 'nobody');
      // A client shows its certificate once for each connection.
      response.setHeader('connection', 'close').end();
    },
  );
  await new Promise<void>((resolve) => backend.listen(BACKEND_PORT, address(22), resolve));
  owner.after(() => void backend.close());
  const host = 'secure.example';
  const clientCertificate = (pair: typeof first) =>
    config().apply('client', tlsSecret('client-cert', 'edge', pair, { 'ca.crt': root.pem }));
  await config().apply('secrets', tlsSecret('a-cert', 'edge', own));
  await config().apply('gateway', gateway([server('a', ['a.example'], simple('a-cert'))]));
  await clientCertificate(first);
  await config().apply(
    'egress',
    resource('ServiceEntry', 'secure', {
      hosts: [host],
      ports: [{ number: 443, name: 'http', protocol: 'HTTP', targetPort: BACKEND_PORT }],
      resolution: 'STATIC',
      endpoints: [{ address: address(22) }],
    }),
    resource('DestinationRule', 'secure', {
      host,
      trafficPolicy: { tls: { mode: 'MUTUAL', credentialName: 'client-cert', sni: host, subjectAltNames: [host] } },
    }),
    resource(
      'VirtualService',
      'secure',
      {
        hosts: ['a.example'],
        gateways: ['edge/front'],
        http: [{ match: [{ uri: { exact: '/' } }], route: [{ destination: { host, port: { number: 443 } } }] }],
      },
      'edge',
    ),
  );
  // The routes for all hosts would match first.
  await config().remove('routes');
  const shown = async () => (await https(at('a.example'))).status === 200 && asked.at(-1);
  await eventually(async () => assert.equal(await shown(), 'DNS:first.example'));
  await clientCertificate(second);
  await eventually(async () => assert.equal(await shown(), 'DNS:second.example'));
  await config().remove('client');
  await eventually(async () => assert.equal((await https(at('a.example'))).status, 503));
  assert.match(await findings(), /outbound\|443\|\|secure.example: waits for a key pair in Secret edge\/client-cert/);
  await clientCertificate(first);
  await eventually(async () => assert.equal(await shown(), 'DNS:first.example'));
});
