/**
 * Certificates of gateways by `credentialName`: real Envoys with identities of the mesh serve with Secrets of their namespace, take new
 * ones without losing a connection, and nobody else learns anything of them.
 */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { certificateSet, testRoot } from '../../src/agent/identity/testing/certificates.ts';
import { type Agent, eventually as retry, startEcho } from '../harness/index.ts';
import { type AskingStream, type StreamOptions, TYPE } from './support/asking-stream.ts';
import { type Document, endpoints, pod, resource, service } from './support/config.ts';
import { type HttpsTarget, holdConnection, https } from './support/https-client.ts';
import { planMesh } from './support/mesh.ts';
import { type SecretsWorld, secret, secretLines, startSecretsWorld, tlsSecret } from './support/secrets-world.ts';
import { lazy, suiteOwner } from './support/suite.ts';

const PORT = 7443;
const BACKEND_PORT = 7480;

const owner = suiteOwner();
const address = planMesh();
const root = testRoot('end users');
const clients = testRoot('clients');
const make = (host: string) => certificateSet(root, host);
const CLIENT = certificateSet(clients, 'client.example');
const STRANGER = certificateSet(testRoot('strangers'), 'client.example');
/** What the other tenant has under the very same name. */
const FOREIGN = make('a.example');

const shared = lazy<{ readonly world: SecretsWorld; readonly gateway: Agent }>();
const world = () => shared.get().world;
const config = () => world().config;

const eventually = (check: () => Promise<void> | void) => retry(check, { timeoutMs: 30_000 });
const at = (host: string, more: Partial<HttpsTarget> = {}): HttpsTarget => ({
  address: address(1),
  port: PORT,
  host,
  root: root.pem,
  ...more,
});

const server = (name: string, hosts: readonly string[], tls: Document, bind = address(1)) => ({
  port: { number: PORT, name, protocol: 'HTTPS' },
  bind,
  hosts,
  tls,
});
const simple = (credentialName: string): Document => ({ mode: 'SIMPLE', credentialName });

function gateway(servers: readonly Document[], name = 'front', namespace = 'edge'): Document {
  return resource('Gateway', name, { selector: { app: 'edge' }, servers }, namespace);
}

const served = async (host: string, certificate: string, more?: Partial<HttpsTarget>) => {
  const answer = await https(at(host, more));
  assert.deepEqual([answer.status, answer.by, answer.certificate], [200, 'a', certificate]);
};
const refused = (host: string, more?: Partial<HttpsTarget>) => assert.rejects(https(at(host, more)));

async function findings(): Promise<string> {
  return (await world().discovery.http('/debug/push_status')).body;
}

async function listenerStats(): Promise<string> {
  const stats = await shared.get().gateway.admin('/stats?filter=listener_manager.listener_(added|modified|in_place)');
  return stats.trim();
}

before(async () => {
  await startEcho(owner, { name: 'a', address: address(21), port: BACKEND_PORT });
  const edge = (name: string, labels: Readonly<Record<string, string>>, namespace: string, last: number) =>
    pod(name, { namespace, labels, ip: address(last), serviceAccount: name });
  const started = await startSecretsWorld(owner, {
    backend: [
      service('a', { ports: [{ name: 'http', port: BACKEND_PORT }] }),
      endpoints('a', [address(21)], [{ name: 'http', port: BACKEND_PORT }]),
    ],
    workloads: [
      edge('gw', { app: 'edge' }, 'edge', 1),
      edge('side', { app: 'side' }, 'edge', 2),
      edge('gw', { app: 'edge' }, 'shop', 3),
    ],
    routes: [
      resource(
        'VirtualService',
        'all',
        {
          hosts: ['*'],
          gateways: ['edge/front', 'shop/front'],
          http: [{ route: [{ destination: { host: 'a.default.svc.cluster.local' } }] }],
        },
        'edge',
      ),
    ],
    foreign: [
      tlsSecret('a-cert', 'shop', FOREIGN),
      gateway([server('own', ['a.example'], simple('a-cert'), address(3))], 'front', 'shop'),
    ],
  });
  const agent = await started.startGateway({
    name: 'gw',
    namespace: 'edge',
    address: address(1),
    labels: { app: 'edge' },
    serviceAccount: 'gw',
  });
  shared.set({ world: started, gateway: agent });
});

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
    const { body } = await world().discovery.http('/debug/configz');
    assert.match(body, /expected the key of the certificate in tls.crt/);
  });
  await served('b.example', b.leaf, { client: CLIENT });
  await config().apply('b', tlsSecret('b-cert', 'edge', next, withAuthorities));
  await eventually(() => served('b.example', next.leaf, { client: CLIENT }));

  await config().remove('b');
  await eventually(() => refused('b.example', { client: CLIENT }));
  await served('a.example', a.leaf);
  await served('c.example', all.leaf);
});

describe('whoever is not the gateway gets nothing', () => {
  const OWN = make('a.example');
  const SECRETS = ['a-cert', 'a-cert-cacert'];
  const FORMS = SECRETS.flatMap((name) =>
    [
      '',
      'kubernetes://',
      'kubernetes-gateway://',
      'kubernetes://edge/',
      'kubernetes-gateway://edge/',
      'edge/',
      'Secret/edge/',
    ].map((before) => `${before}${name}`),
  );
  const LABELS = { app: 'edge' };

  before(async () => {
    await config().apply('secrets', tlsSecret('a-cert', 'edge', OWN, { 'ca.crt': clients.pem }));
    await config().apply(
      'gateway',
      gateway([server('a', ['a.example'], { mode: 'MUTUAL', credentialName: 'a-cert' })]),
    );
    await eventually(() => served('a.example', OWN.leaf, { client: CLIENT }));
  });

  /** Asks in every form, and waits until all that could come has come. */
  async function ask(stream: AskingStream, { mode }: Pick<StreamOptions, 'mode'>): Promise<void> {
    const claims = new Map(FORMS.map((name) => [name, '0'.repeat(32)]));
    await stream.ask(TYPE.cds, mode === 'delta' ? ['*'] : []);
    await eventually(() => assert.ok(stream.types.has(TYPE.cds) || stream.ended !== undefined));
    await stream.ask(TYPE.lds, mode === 'delta' ? ['*'] : []);
    await stream.ask(TYPE.sds, mode === 'delta' ? ['*', ...FORMS] : FORMS, mode === 'delta' ? claims : undefined);
    if (mode === 'delta') await eventually(() => assert.ok(stream.types.has(TYPE.sds)));
    // A change of the Secret reaches those who have it.
    const next = { ...OWN, leaf: `${OWN.leaf}\n# again\n` };
    await config().apply('secrets', tlsSecret('a-cert', 'edge', next, { 'ca.crt': clients.pem }));
    await new Promise((resolve) => setTimeout(resolve, 700));
    await config().apply('secrets', tlsSecret('a-cert', 'edge', OWN, { 'ca.crt': clients.pem }));
  }

  const callers: readonly (readonly [behaviour: string, StreamOptions & { readonly account?: string }])[] = (
    ['delta', 'sotw'] as const
  ).flatMap(
    (mode) =>
      [
        [
          'a gateway of another namespace',
          { mode, token: '', account: 'gw', type: 'router', namespace: 'shop', labels: LABELS },
        ],
        [
          'a sidecar of the namespace',
          { mode, token: '', account: 'side', type: 'sidecar', namespace: 'edge', labels: LABELS },
        ],
        [
          'a sidecar with the account of the gateway',
          { mode, token: '', account: 'gw', type: 'sidecar', namespace: 'edge', labels: LABELS },
        ],
        [
          'a workload of the namespace that says it is a gateway',
          { mode, token: '', account: 'side', type: 'router', namespace: 'edge', labels: LABELS },
        ],
        [
          'an account that nobody runs as',
          { mode, token: '', account: 'ghost', type: 'router', namespace: 'edge', labels: LABELS },
        ],
        [
          'a gateway with the right account and other labels',
          { mode, token: '', account: 'gw', type: 'router', namespace: 'edge', labels: { app: 'other' } },
        ],
        ['a stream without identity', { mode, token: undefined, type: 'router', namespace: 'edge', labels: LABELS }],
      ] as const,
  );
  for (const [behaviour, { account, ...options }] of callers) {
    test(`${options.mode}: ${behaviour}`, async () => {
      const token = account === undefined ? undefined : await world().token(options.namespace, account);
      const stream = world().stream({ ...options, token });
      await ask(stream, options);
      assert.equal(stream.ended, undefined);
      for (const line of secretLines(OWN)) assert.ok(!stream.holds(line));
      assert.ok(!stream.holds(clients.pem.slice(100, 200)));
      // Its own it does get: the way is open, and what is on the other side of the wall stays there.
      const own = options.namespace === 'shop' && options.type === 'router';
      assert.deepEqual([...stream.secrets.keys()], own ? ['kubernetes://a-cert'] : []);
      if (own) assert.equal(stream.secrets.get('kubernetes://a-cert'), FOREIGN.key);
      await stream.close();
    });
  }

  test('the gateway itself, over either protocol: so that the tests above can fail', async () => {
    for (const mode of ['delta', 'sotw'] as const) {
      const options = {
        mode,
        token: await world().token('edge', 'gw'),
        type: 'router',
        namespace: 'edge',
        labels: LABELS,
      } as const;
      const stream = world().stream(options);
      await ask(stream, options);
      await eventually(() => assert.equal(stream.secrets.get('kubernetes://a-cert'), OWN.key));
      for (const line of secretLines(OWN).slice(0, -1)) assert.ok(stream.holds(line));
      await stream.close();
    }
  });

  test('a Gateway of another namespace that names the Secret, in every form', async () => {
    const forms = [
      'edge/a-cert',
      'kubernetes://edge/a-cert',
      'kubernetes-gateway://edge/a-cert',
      'kubernetes://shop/../edge/a-cert',
      '../edge/a-cert',
      'Secret/edge/a-cert',
      'kubernetes://kubernetes://edge/a-cert',
      'edge%2Fa-cert',
      'edge\\a-cert',
      'configmap://edge/a-cert',
    ];
    const servers = forms.flatMap((form, index) => [
      server(`s${index}`, [`s${index}.example`], simple(form), address(3)),
      server(
        `m${index}`,
        [`m${index}.example`],
        { ...simple('a-cert'), mode: 'MUTUAL', caCertCredentialName: form },
        address(3),
      ),
    ]);
    const token = await world().token('shop', 'gw');
    const stream = world().stream({ mode: 'delta', token, type: 'router', namespace: 'shop', labels: LABELS });
    await config().apply('thief', gateway(servers, 'thief', 'shop'));
    await ask(stream, { mode: 'delta' });
    await eventually(async () => {
      const text = await findings();
      for (const index of forms.keys()) {
        for (const name of [`s${index}`, `m${index}`]) {
          assert.match(text, new RegExp(`Gateway shop/thief, server ${name}: credential .* is refused`));
        }
      }
    });
    for (const line of secretLines(OWN)) assert.ok(!stream.holds(line));
    assert.ok(!stream.holds(clients.pem.slice(100, 200)));
    await config().remove('thief');
    await stream.close();
  });

  test('a workload that is registered later gets its certificate then, and loses it when it is unregistered', async () => {
    const token = await world().token('edge', 'late');
    const stream = world().stream({ mode: 'delta', token, type: 'router', namespace: 'edge', labels: LABELS });
    await ask(stream, { mode: 'delta' });
    assert.deepEqual([...stream.secrets.keys()], []);
    await config().apply(
      'late',
      resource('WorkloadEntry', 'late', { address: address(9), labels: LABELS, serviceAccount: 'late' }, 'edge'),
    );
    await eventually(() => assert.equal(stream.secrets.get('kubernetes://a-cert'), OWN.key));
    stream.removed.clear();
    await config().remove('late');
    await eventually(() => assert.ok(stream.removed.has('kubernetes://a-cert')));
    await stream.close();
  });
});

test('no page and no log holds a private key', async () => {
  const own = make('a.example');
  await config().apply(
    'secrets',
    tlsSecret('a-cert', 'edge', own),
    tlsSecret('bad', 'edge', { ...own, leaf: own.key }),
  );
  await config().apply('gateway', gateway([server('a', ['a.example'], simple('a-cert'))]));
  await config().write(
    'broken.yaml',
    `apiVersion: v1\nkind: Secret\nmetadata: {name: broken}\ndata:\n  tls.key: ${own.key}\n`,
  );
  await eventually(() => served('a.example', own.leaf));
  const { discovery } = world();
  await eventually(async () => assert.match((await discovery.http('/debug/configz')).body, /broken.yaml/));
  const index = (await discovery.http('/debug')).body;
  const pages = [...index.matchAll(/href="\/debug\/([A-Za-z_]+)"/g)].map(([, name]) => `/debug/${name}`);
  assert.ok(pages.length >= 12);
  const dump = (await discovery.http('/debug/config_dump?proxyID=gw.edge')).body;
  assert.match(dump, /"kubernetes:\/\/a-cert"/);
  assert.match(dump, /\[redacted\]/);
  const texts = new Map<string, string>([
    ['config_dump', dump],
    ['log', discovery.output()],
    ['agent', shared.get().gateway.output()],
    ['metrics', await discovery.metrics()],
  ]);
  for (const page of pages) {
    texts.set(page, (await discovery.http(page)).body);
    texts.set(`${page} of the proxy`, (await discovery.http(`${page}?proxyID=gw.edge`)).body);
    texts.set(`${page} of the Secret`, (await discovery.http(`${page}?resource=Secret/edge/a-cert`)).body);
  }
  for (const [what, text] of texts) {
    for (const line of [...secretLines(own), ...secretLines(FOREIGN)]) assert.ok(!text.includes(line), what);
  }
  await config().remove('broken');
});
