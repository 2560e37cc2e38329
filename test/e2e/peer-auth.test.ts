/**
 * Peer authentication as users see it (identity, outcome, precedence), request by request through agents, real Envoys
 * and redirection. Each policy is applied to the running mesh and deleted again. The table of all outcomes is printed
 * at the end.
 */
import assert from 'node:assert/strict';
import { chmod, copyFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { eventually, netnsUnavailable, tempDir } from '../harness/index.ts';
import { type Document, resource } from './support/config.ts';
import { type CertificateFiles, foreignRoot, signedBy } from './support/foreign-certificate.ts';
import {
  type IdentityWorld,
  sharedService,
  startIdentityWorld,
  UNBOUND_HTTP2_PORT,
  UNBOUND_PORT,
  type Workload,
} from './support/identity-world.ts';
import { httpOutcome, OutcomeTable, type Row, type Target, withoutPolicies } from './support/peer-calls.ts';
import { lazy, suiteOwner } from './support/suite.ts';
import { startTlsApplication, TLS_PORT } from './support/tls-application.ts';

const skip = (await netnsUnavailable()) ?? false;

const WORKLOADS = [
  { name: 'web', namespace: 'foo', proxied: true },
  { name: 'api', namespace: 'foo', proxied: true },
  // With the other mode of redirection: all expectations are the same.
  { name: 'web', namespace: 'bar', proxied: true, interception: 'TPROXY' },
  // Without a proxy, in a namespace with proxied workloads and behind the same service as one of them.
  { name: 'bare', namespace: 'foo', proxied: false },
  { name: 'plain', namespace: 'legacy', proxied: false },
] as const;
type Id = 'web.foo' | 'api.foo' | 'web.bar' | 'bare.foo' | 'plain.legacy';

interface Shared {
  readonly world: IdentityWorld;
  /** File of the authorities that the machine of web.foo trusts; missing at first. */
  readonly systemAuthorities: string;
  readonly workloads: ReadonlyMap<string, Workload>;
}

const owner = suiteOwner();
const shared = lazy<Shared>();
const table = new OutcomeTable();

before(async () => {
  if (skip !== false) return;
  const world = await startIdentityWorld(owner);
  const folder = await tempDir(owner);
  await chmod(folder, 0o755);
  const systemAuthorities = join(folder, 'system.pem');
  const workloads = await Promise.all(
    WORKLOADS.map((workload) => {
      const isWeb = workload.name === 'web' && workload.namespace === 'foo';
      return world.addWorkload({ ...workload, env: isWeb ? { SSL_CERT_FILE: systemAuthorities } : {} });
    }),
  );
  shared.set({ world, systemAuthorities, workloads: new Map(workloads.map((workload) => [workload.id, workload])) });
});
after(() => table.print());

function workload(id: Id): Workload {
  const found = shared.get().workloads.get(id);
  if (found === undefined) throw new Error(`no workload ${id}`);
  return found;
}

const ROOT = 'mesh-system';
type Mode = 'STRICT' | 'PERMISSIVE' | 'DISABLE' | 'UNSET';

function peerAuthentication(
  namespace: string,
  mode: Mode | undefined,
  more: { readonly app?: string; readonly ports?: Readonly<Record<number, Mode>> } = {},
): Document {
  const { app, ports } = more;
  const spec = {
    ...(app === undefined ? {} : { selector: { matchLabels: { app } } }),
    ...(mode === undefined ? {} : { mtls: { mode } }),
    ...(ports === undefined
      ? {}
      : { portLevelMtls: Object.fromEntries(Object.entries(ports).map(([port, each]) => [port, { mode: each }])) }),
  };
  return resource('PeerAuthentication', `policy-${app ?? 'all'}`, spec, namespace);
}

/** A Sidecar whose only inbound port is unused. */
function sidecarElsewhere(app: string): Document {
  const ingress = [{ port: { number: 9999, name: 'http', protocol: 'HTTP' }, defaultEndpoint: '127.0.0.1:9999' }];
  return resource('Sidecar', 'elsewhere', { workloadSelector: { labels: { app } }, ingress }, 'foo');
}

type ClientMode = 'MESH_MUTUAL' | 'DISABLE';

function destinationRule(id: Id, mode: ClientMode, ports: Readonly<Record<number, ClientMode>> = {}): Document {
  const [name = '', namespace = ''] = id.split('.');
  const portLevelSettings = Object.entries(ports).map(([number, each]) => ({
    port: { number: Number(number) },
    tls: { mode: each },
  }));
  const trafficPolicy = { tls: { mode }, ...(portLevelSettings.length === 0 ? {} : { portLevelSettings }) };
  return resource(
    'DestinationRule',
    name,
    { host: `${name}.${namespace}.svc.cluster.local`, trafficPolicy },
    namespace,
  );
}

interface Expectation {
  readonly from: Id;
  readonly to: Id;
  /** Default http. */
  readonly port?: Target;
  readonly is: string;
}

interface Scenario {
  readonly name: string;
  readonly policies: () => readonly Document[];
  readonly expected: readonly Expectation[];
}

const REFUSED = '000/56';
const PROXIED: readonly Id[] = ['web.foo', 'api.foo', 'web.bar'];
const ALL: readonly Id[] = [...PROXIED, 'bare.foo', 'plain.legacy'];
const PLAIN: Id = 'plain.legacy';

/** Every client to one server. */
function clientsOf(to: Id, proxied: string, plain: string, port: Target = 'http'): Expectation[] {
  return [
    { from: 'web.bar', to, port, is: proxied },
    { from: 'api.foo', to, port, is: proxied },
    { from: PLAIN, to, port, is: plain },
  ];
}

/** A server without a proxy is reachable for every client, whatever the policy. */
const PLAIN_SERVER: readonly Expectation[] = PROXIED.flatMap((from) =>
  ([PLAIN, 'bare.foo'] as const).map((to) => ({ from, to, is: '200 plain' })),
);

const EVERY_PORT: readonly Target[] = ['http', 'grpc', 'tcp', 'bytes'];
const isTcp = (port: Target): boolean => port === 'tcp' || port === 'bytes';

const SCENARIOS: readonly Scenario[] = [
  {
    name: 'scope 1: STRICT in the root namespace, for the whole mesh',
    policies: () => [peerAuthentication(ROOT, 'STRICT')],
    expected: [...PROXIED.flatMap((to) => clientsOf(to, '200 mtls', REFUSED)), ...PLAIN_SERVER],
  },
  {
    name: 'DISABLE in the root namespace, without any DestinationRule',
    policies: () => [peerAuthentication(ROOT, 'DISABLE')],
    expected: [...PROXIED.flatMap((to) => clientsOf(to, '200 plain', '200 plain')), ...PLAIN_SERVER],
  },
  {
    name: 'scope 2: STRICT for one namespace',
    policies: () => [peerAuthentication('foo', 'STRICT')],
    expected: [
      ...clientsOf('web.foo', '200 mtls', REFUSED),
      ...clientsOf('api.foo', '200 mtls', REFUSED),
      ...clientsOf('web.bar', '200 mtls', '200 plain'),
      ...PLAIN_SERVER,
    ],
  },
  {
    name: 'scope 3: STRICT for one workload',
    policies: () => [peerAuthentication('foo', 'STRICT', { app: 'web' })],
    expected: [
      ...clientsOf('web.foo', '200 mtls', REFUSED),
      ...clientsOf('api.foo', '200 mtls', '200 plain'),
      ...clientsOf('web.bar', '200 mtls', '200 plain'),
    ],
  },
  {
    name: 'scope 4: DISABLE for a workload in a namespace that is STRICT',
    policies: () => [peerAuthentication('foo', 'STRICT'), peerAuthentication('foo', 'DISABLE', { app: 'web' })],
    expected: [...clientsOf('web.foo', '200 plain', '200 plain'), ...clientsOf('api.foo', '200 mtls', REFUSED)],
  },
  {
    name: 'scope 5: the same with a DestinationRule that says DISABLE',
    policies: () => [
      peerAuthentication('foo', 'STRICT'),
      peerAuthentication('foo', 'DISABLE', { app: 'web' }),
      destinationRule('web.foo', 'DISABLE'),
    ],
    expected: [...clientsOf('web.foo', '200 plain', '200 plain'), ...clientsOf('api.foo', '200 mtls', REFUSED)],
  },
  {
    name: 'scope 5: STRICT for a workload with a DestinationRule that says MESH_MUTUAL',
    policies: () => [peerAuthentication('bar', 'STRICT', { app: 'web' }), destinationRule('web.bar', 'MESH_MUTUAL')],
    expected: [...clientsOf('web.bar', '200 mtls', REFUSED), ...clientsOf('web.foo', '200 mtls', '200 plain')],
  },
  {
    name: 'a narrower scope wins: PERMISSIVE for a namespace in a mesh that is STRICT; UNSET inherits',
    policies: () => [
      peerAuthentication(ROOT, 'STRICT'),
      peerAuthentication('foo', 'PERMISSIVE'),
      peerAuthentication('foo', 'UNSET', { app: 'web' }),
      peerAuthentication('bar', 'UNSET'),
    ],
    expected: [
      ...clientsOf('web.foo', '200 mtls', '200 plain'),
      ...clientsOf('api.foo', '200 mtls', '200 plain'),
      ...clientsOf('web.bar', '200 mtls', REFUSED),
    ],
  },
  {
    name: 'a DestinationRule that says DISABLE to a server that is STRICT',
    policies: () => [peerAuthentication('foo', 'STRICT'), destinationRule('web.foo', 'DISABLE')],
    expected: [
      { from: 'web.bar', to: 'web.foo', is: '503' },
      { from: 'web.bar', to: 'api.foo', is: '200 mtls' },
      { from: 'web.bar', to: 'web.foo', port: 'tcp', is: 'cut' },
    ],
  },
  {
    name: 'a DestinationRule that says MESH_MUTUAL to a server without proxy',
    policies: () => [destinationRule(PLAIN, 'MESH_MUTUAL')],
    expected: [
      { from: 'web.bar', to: PLAIN, is: '503' },
      { from: 'web.bar', to: 'web.foo', is: '200 mtls' },
    ],
  },
  {
    name: 'STRICT, over every protocol',
    policies: () => [peerAuthentication('foo', 'STRICT')],
    expected: EVERY_PORT.flatMap((port) =>
      clientsOf('web.foo', isTcp(port) ? 'ok' : '200 mtls', isTcp(port) ? 'cut' : REFUSED, port),
    ),
  },
  {
    name: 'DISABLE, over every protocol',
    policies: () => [peerAuthentication('foo', 'DISABLE')],
    expected: EVERY_PORT.flatMap((port) => {
      const reached = isTcp(port) ? 'ok' : '200 plain';
      return clientsOf('web.foo', reached, reached, port);
    }),
  },
  {
    name: 'scope 6: DISABLE for a container port, its DestinationRule by the service port',
    policies: () => [
      peerAuthentication('foo', 'STRICT', { app: 'web', ports: { 8080: 'DISABLE', 9000: 'DISABLE' } }),
      destinationRule('web.foo', 'MESH_MUTUAL', { 80: 'DISABLE', 90: 'DISABLE' }),
    ],
    expected: [
      ...clientsOf('web.foo', '200 plain', '200 plain'),
      ...clientsOf('web.foo', '200 mtls', REFUSED, 'grpc'),
      ...clientsOf('web.foo', 'ok', 'ok', 'tcp'),
      ...clientsOf('web.foo', 'ok', 'cut', 'bytes'),
    ],
  },
  {
    name: 'scope 6: STRICT for a container port of a workload that is DISABLEd, without any DestinationRule',
    policies: () => [peerAuthentication('foo', 'DISABLE', { app: 'web', ports: { 8080: 'STRICT' } })],
    expected: [...clientsOf('web.foo', '200 mtls', REFUSED), ...clientsOf('web.foo', '200 plain', '200 plain', 'grpc')],
  },
  {
    name: 'scope 6: the number of a service port means nothing in a PeerAuthentication',
    policies: () => [peerAuthentication('foo', 'STRICT', { app: 'web', ports: { 80: 'DISABLE' } })],
    expected: clientsOf('web.foo', '200 mtls', REFUSED),
  },
  {
    name: 'scope 6: a port that is bound to no service is ignored, and has the mode of the workload',
    policies: () => [peerAuthentication('foo', 'STRICT', { app: 'web', ports: { 8088: 'DISABLE' } })],
    expected: [{ from: PLAIN, to: 'web.foo', port: 'unbound', is: REFUSED }],
  },
  {
    name: 'rule 2 on ports that a Sidecar does not list: to its proxy they are ports of no service',
    policies: () => [sidecarElsewhere('web')],
    expected: [
      ...clientsOf('web.foo', '200 mtls', '200 plain'),
      ...clientsOf('web.foo', '200 mtls', '200 plain', 'grpc'),
      ...clientsOf('web.foo', 'ok', 'ok', 'tcp'),
      ...clientsOf('web.foo', 'ok', 'ok', 'bytes'),
    ],
  },
  {
    name: 'the same ports under STRICT',
    policies: () => [sidecarElsewhere('web'), peerAuthentication('foo', 'STRICT')],
    expected: [
      ...clientsOf('web.foo', '200 mtls', REFUSED),
      ...clientsOf('web.foo', '200 mtls', REFUSED, 'grpc'),
      ...clientsOf('web.foo', 'ok', 'cut', 'tcp'),
      ...clientsOf('web.foo', 'ok', 'cut', 'bytes'),
    ],
  },
];

const MIXED_ADDRESS = '10.96.1.1';
const SECURE_ADDRESS = '10.96.1.2';

function rowsOf(expected: readonly Expectation[]): Row[] {
  return expected.map(({ from, to, port = 'http', is }) => ({
    from: workload(from),
    to: workload(to),
    port,
    expected: is,
  }));
}

describe('peer authentication', { skip }, () => {
  test('rules 1 to 3: without policies every request between any two workloads succeeds, over every protocol', async () => {
    for (const port of EVERY_PORT) {
      const pairs = ALL.flatMap((from) => ALL.map((to) => ({ from: workload(from), to: workload(to), port })));
      await table.check(
        'none',
        pairs.map((row) => ({ ...row, expected: withoutPolicies(row) })),
      );
    }
  });

  for (const { name, policies, expected } of SCENARIOS) {
    test(name, async () => {
      const { config } = shared.get().world;
      const rows = rowsOf(expected);
      await config.apply('policy', ...policies());
      await table.check(name, rows);
      // Rule 7: a deleted policy has no effect.
      await config.remove('policy');
      const changed = rows
        .map((row) => ({ row, was: withoutPolicies(row) }))
        .filter(({ row, was }) => row.expected !== was);
      await table.check(
        'deleted again',
        changed.map(({ row, was }) => ({ ...row, expected: was })),
      );
    });
  }

  test('rule 2: a plain-text client of a port of no service cannot claim an identity', async () => {
    const [from, to] = [workload(PLAIN), workload('web.foo')];
    const forged = `x-forwarded-client-cert: By=${to.identity};Hash=${'0'.repeat(64)};Subject="";URI=${from.identity}`;
    const versions = [
      ['--http1.0', UNBOUND_PORT],
      ['--http1.1', UNBOUND_PORT],
      ['--http2-prior-knowledge', UNBOUND_HTTP2_PORT],
    ] as const;
    for (const [version, port] of versions) {
      const url = `http://${to.netns.address}:${port}/`;
      assert.equal(await httpOutcome(from, to, ['-m', '5', version, '-H', forged, url]), '200 plain', version);
    }
  });

  test('the workload with TPROXY received its connections by TPROXY', async () => {
    const rules = await workload('web.bar').netns.run('iptables-save', '-c', '-t', 'mangle');
    assert.match(rules, /^\[[1-9]\d*:\d+\] -A MESH_INBOUND .*-j MESH_TPROXY$/m);
  });

  test('rule 1: of one service the proxied endpoint gets mutual TLS and the other plain text', async () => {
    const { config } = shared.get().world;
    const [from, proxied, bare] = [workload('web.foo'), workload('api.foo'), workload('bare.foo')];
    await config.apply(
      'mixed',
      ...sharedService('mixed', MIXED_ADDRESS, [proxied, bare], [{ name: 'http', port: 80, targetPort: 8080 }]),
    );
    const seen = async () => {
      const outcomes = new Set<string>();
      // Several calls, because the endpoints take turns.
      for (const to of [proxied, bare]) {
        for (let i = 0; i < 6; i++) {
          const outcome = await httpOutcome(from, to, ['-m', '5', `http://${MIXED_ADDRESS}/`]);
          // The expectation depends on the endpoint that answered.
          if (!outcome.startsWith('200 by ')) outcomes.add(`${to.id}: ${outcome}`);
        }
      }
      return [...outcomes].sort();
    };
    const check = (mode: string) =>
      eventually(async () => assert.deepEqual(await seen(), [`api.foo: 200 ${mode}`, 'bare.foo: 200 plain']), {
        timeoutMs: 30_000,
      });
    await check('mtls');
    await config.apply('policy', peerAuthentication('foo', 'DISABLE', { app: 'api' }));
    await check('plain');
    await config.apply('policy', peerAuthentication('foo', 'STRICT'));
    await check('mtls');
    await config.remove('policy');
    await config.remove('mixed');
  });

  describe('TLS that proxies originate (DestinationRules of mode SIMPLE and MUTUAL)', () => {
    const certificates = lazy<{ readonly root: CertificateFiles; readonly client: CertificateFiles }>();

    before(async () => {
      const { world } = shared.get();
      const bare = workload('bare.foo');
      const root = await foreignRoot(owner);
      const [server, client] = [
        await signedBy(owner, root, 'DNS:secure.example,DNS:secure.foo'),
        await signedBy(owner, root, 'DNS:client.example'),
      ];
      await startTlsApplication(bare, server, root);
      await world.config.apply(
        'secure',
        ...sharedService('secure', SECURE_ADDRESS, [bare], [{ name: 'http', port: 80, targetPort: TLS_PORT }]),
      );
      certificates.set({ root, client });
    });
    after(async () => {
      await shared.get().world.config.remove('policy');
      await shared.get().world.config.remove('secure');
    });

    const speak = (tls: Document) =>
      shared
        .get()
        .world.config.apply(
          'policy',
          resource(
            'DestinationRule',
            'secure',
            { host: 'secure.foo.svc.cluster.local', trafficPolicy: { tls } },
            'foo',
          ),
        );
    const ask = (host: string) =>
      workload('web.foo').netns.run(
        'curl',
        '-s',
        '-m',
        '5',
        '-H',
        `Host: ${host}`,
        '-w',
        ' %{http_code}',
        `http://${SECURE_ADDRESS}/`,
      );
    const answered = (expected: string | RegExp, host: string = SECURE_ADDRESS) =>
      eventually(
        async () => {
          const text = await ask(host);
          if (typeof expected === 'string') assert.equal(text, expected);
          else assert.match(text, expected);
        },
        { timeoutMs: 30_000, intervalMs: 100 },
      );

    test('with their own certificates and names, over TLS 1.3', async () => {
      const { root, client } = certificates.get();
      const simple = { mode: 'SIMPLE', sni: 'secure.example', caCertificates: root.certificate };
      await speak({ ...simple, subjectAltNames: ['secure.example'] });
      await answered('nobody asks secure.example over TLSv1.3 200');
      await speak({ ...simple, mode: 'MUTUAL', clientCertificate: client.certificate, privateKey: client.key });
      await answered('DNS:client.example asks secure.example over TLSv1.3 200');
      // A server with another name receives no requests.
      await speak({ ...simple, subjectAltNames: ['elsewhere.example'] });
      await answered(/ 503$/);
    });

    test('without names the certificate must have the host of the request', async () => {
      await speak({ mode: 'SIMPLE', caCertificates: certificates.get().root.certificate });
      await answered('nobody asks secure.foo over TLSv1.3 200', 'secure.foo');
      await answered(/ 503$/, 'secure');
    });

    test('without authorities those of the system are trusted, unless the rule skips verification', async () => {
      const { systemAuthorities } = shared.get();
      await speak({ mode: 'SIMPLE', insecureSkipVerify: true });
      await answered('nobody asks secure over TLSv1.3 200', 'secure');
      await speak({ mode: 'SIMPLE' });
      await answered(/ 503$/, 'secure.foo');
      await copyFile(certificates.get().root.certificate, systemAuthorities);
      await answered('nobody asks secure.foo over TLSv1.3 200', 'secure.foo');
    });

    test('missing files fail the requests that need them, until the files exist', async () => {
      const { root, client } = certificates.get();
      const folder = await tempDir(owner);
      await chmod(folder, 0o755);
      const [clientCertificate, privateKey] = [join(folder, 'client.pem'), join(folder, 'client.key')];
      const names = { sni: 'secure.example', caCertificates: root.certificate };
      await speak({ mode: 'MUTUAL', ...names, clientCertificate, privateKey });
      await answered(/ 503$/);
      await copyFile(client.certificate, clientCertificate);
      await copyFile(client.key, privateKey);
      await answered('DNS:client.example asks secure.example over TLSv1.3 200');
    });
  });

  test('no Envoy warned of a deprecated field', () => {
    for (const { id, agent } of shared.get().workloads.values()) {
      assert.doesNotMatch(agent?.output() ?? '', /deprecated/i, id);
    }
  });
});
