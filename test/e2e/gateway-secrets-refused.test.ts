/**
 * The certificate of a gateway is sent to no other caller, in whatever way it is requested.
 */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { GiveUp } from '../harness/index.ts';
import { type AskingStream, type StreamOptions, TYPE } from './support/asking-stream.ts';
import { resource } from './support/config.ts';
import { inCluster } from './support/mesh.ts';
import { secretLines, tlsSecret } from './support/secrets-world.ts';
import {
  address,
  CLIENT,
  clients,
  config,
  eventually,
  FOREIGN,
  findings,
  gateway,
  make,
  served,
  server,
  shared,
  simple,
  startTenants,
  world,
} from './support/tenants.ts';

before(startTenants);

describe('callers other than the gateway get nothing', () => {
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

  /** Requests the secret in every form, and waits until every possible answer has arrived. */
  async function ask(stream: AskingStream, { mode }: Pick<StreamOptions, 'mode'>): Promise<void> {
    const claims = new Map(FORMS.map((name) => [name, '0'.repeat(32)]));
    const answered = (type: string) =>
      eventually(() => {
        if (stream.ended !== undefined) throw new GiveUp(`the stream has ended: ${stream.ended}`);
        assert.ok(stream.types.has(type), `no answer for ${type}`);
      });
    await stream.ask(TYPE.cds, mode === 'delta' ? ['*'] : []);
    await answered(TYPE.cds);
    await stream.ask(TYPE.lds, mode === 'delta' ? ['*'] : []);
    await stream.ask(TYPE.sds, mode === 'delta' ? ['*', ...FORMS] : FORMS, mode === 'delta' ? claims : undefined);
    if (mode === 'delta') await answered(TYPE.sds);
    // A change of the Secret reaches those that may have it.
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
      // It does receive its own secret: requests work, and the other tenant's secret is withheld.
      const own = options.namespace === 'shop' && options.type === 'router';
      assert.deepEqual([...stream.secrets.keys()], own ? ['kubernetes://a-cert'] : []);
      if (own) assert.equal(stream.secrets.get('kubernetes://a-cert'), FOREIGN.key);
      await stream.close();
    });
  }

  test('the gateway itself receives it, over either protocol, which shows that the tests above can fail', async () => {
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

  test('a Gateway of another namespace cannot name the Secret, in any form', async () => {
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
          assert.match(text, new RegExp(`Gateway shop/thief, server ${name}: credential .* is denied`));
        }
      }
    });
    for (const line of secretLines(OWN)) assert.ok(!stream.holds(line));
    assert.ok(!stream.holds(clients.pem.slice(100, 200)));
    await config().remove('thief');
    await stream.close();
  });

  test('a workload receives its certificate once it is registered, and loses it when it is unregistered', async () => {
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

test('no page and no log contains a private key', async () => {
  const own = make('a.example');
  await config().apply(
    'secrets',
    tlsSecret('a-cert', 'edge', own),
    tlsSecret('bad', 'edge', { ...own, leaf: own.key }),
  );
  await config().apply('gateway', gateway([server('a', ['a.example'], simple('a-cert'))]));
  const discovery = world().discovery();
  if (!inCluster()) {
    await config().write(
      'broken.yaml',
      `apiVersion: v1\nkind: Secret\nmetadata: {name: broken}\ndata:\n  tls.key: ${own.key}\n`,
    );
    await eventually(async () => assert.match((await discovery.http('/debug/configz')).body, /broken.yaml/));
  }
  await eventually(() => served('a.example', own.leaf));
  const index = (await discovery.http('/debug')).body;
  const pages = [...index.matchAll(/href="\/debug\/([A-Za-z_]+)"/g)].map(([, name]) => `/debug/${name}`);
  assert.ok(pages.length >= 12);
  const dump = (await discovery.http('/debug/config_dump?proxyID=gw.edge')).body;
  assert.match(dump, /"kubernetes:\/\/a-cert"/);
  // As in Envoy's own dump: bytes are base64 in the JSON of a message.
  assert.ok(dump.includes(Buffer.from('[redacted]').toString('base64')));
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
  if (!inCluster()) await config().remove('broken');
});

test('without authentication nobody receives a certificate', async () => {
  const own = make('a.example');
  await config().apply('secrets', tlsSecret('a-cert', 'edge', own));
  await config().apply('gateway', gateway([server('a', ['a.example'], simple('a-cert'))]));
  await eventually(() => served('a.example', own.leaf));
  await world().discovery().stop();
  await world().restart({ XDS_AUTH: 'false' });
  const token = await world().token('edge', 'gw');
  const stream = world().stream({ mode: 'delta', token, type: 'router', namespace: 'edge', labels: { app: 'edge' } });
  await stream.ask(TYPE.cds, ['*']);
  await stream.ask(TYPE.sds, ['*', 'kubernetes://a-cert']);
  await eventually(() => assert.ok(stream.removed.has('kubernetes://a-cert')));
  assert.deepEqual([...stream.secrets.keys()], []);
  await stream.close();
});
