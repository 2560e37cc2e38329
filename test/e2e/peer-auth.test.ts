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
import { httpOutcome, OutcomeTable, type Row, withoutPolicies } from './support/peer-calls.ts';
import {
  ALL,
  EVERY_PORT,
  type Expectation,
  PLAIN,
  peerAuthentication,
  SCENARIOS,
  type WorkloadId,
} from './support/peer-scenarios.ts';
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

function workload(id: WorkloadId): Workload {
  const found = shared.get().workloads.get(id);
  if (found === undefined) throw new Error(`no workload ${id}`);
  return found;
}

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
      assert.equal(await httpOutcome(from, to, ['-m', '20', version, '-H', forged, url]), '200 plain', version);
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
          const outcome = await httpOutcome(from, to, ['-m', '20', `http://${MIXED_ADDRESS}/`]);
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
