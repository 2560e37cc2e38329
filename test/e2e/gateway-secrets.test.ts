/**
 * Certificates of gateways by `credentialName`: real Envoys with identities of the mesh serve with Secrets of their namespace, and take
 * new ones without losing a connection. Who else asks for them: `gateway-secrets-refused.test.ts`.
 */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { holdConnection, https } from './support/https-client.ts';
import { secret, tlsSecret } from './support/secrets-world.ts';
import {
  at,
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
  STRANGER,
  served,
  server,
  shared,
  simple,
  startTenants,
  world,
} from './support/tenants.ts';

before(startTenants);

test('servers of one port, each with its credential: by server name, with and without certificates of clients', async () => {
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
  await eventually(() => served('a.example', a.leaf));
  await served('b.example', b.leaf);
  for (const [host, { leaf }] of [
    ['mutual.example', mutual],
    ['apart.example', apart],
  ] as const) {
    await served(host, leaf, { client: CLIENT });
    await refused(host);
    await refused(host, { client: STRANGER });
  }
  await served('generic.example', generic.leaf, { client: CLIENT });
  await served('generic.example', generic.leaf);
  await refused('generic.example', { client: STRANGER });
  await refused('c.example');
});

test('a new certificate under load: no connection is lost, no handshake fails, no listener changes', async () => {
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
  going = false;
  await Promise.all(loops);
  assert.deepEqual(failures, []);
  assert.ok(requests > 50, `${requests} requests`);
  assert.deepEqual([...seen].sort(), all.sort());
  assert.equal(await listenerStats(), listeners);
});

test('what is missing, broken or gone costs its own server alone, and comes back by itself', async () => {
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
  // Not left to the server for all names, which asks clients for no certificate.
  await refused('b.example');
  assert.match(await findings(), /Gateway edge\/front, server b: waits for Secret edge\/b-cert/);

  const withAuthorities = { 'ca.crt': clients.pem };
  await config().apply('b', tlsSecret('b-cert', 'edge', b, withAuthorities));
  await eventually(() => served('b.example', b.leaf, { client: CLIENT }));
  assert.doesNotMatch(await findings(), /waits for Secret/);

  // A key of another certificate: the last good one stays.
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

test('a control plane that is away takes nothing with it, and sends nothing new when it is back', async () => {
  const [own, next] = [make('a.example'), make('a.example')];
  await config().apply('secrets', tlsSecret('a-cert', 'edge', own));
  await config().apply('gateway', gateway([server('a', ['a.example'], simple('a-cert'))]));
  await eventually(() => served('a.example', own.leaf));
  const { gateway: agent } = shared.get();
  // Of other tests' secrets that their drained listeners still ask for it is told again that there are none.
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

test('a secret that Envoy rejects all the same costs it alone: the last good one stays', async () => {
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
