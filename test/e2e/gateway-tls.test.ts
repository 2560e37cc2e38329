/**
 * TLS of ingress gateways, mode by mode: which server a name selects, which client certificates are required, which
 * versions and cipher suites are accepted. Also redirects to HTTPS, spellings of hosts, and headers about the client.
 * Certificates are files of the gateway's machine, and Envoy runs without an agent.
 */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { request, startEcho, tempDir } from '../harness/index.ts';
import { type Document, endpoints, resource, service } from './support/config.ts';
import { type CertificateFiles, foreignRoot, signedBy } from './support/foreign-certificate.ts';
import { type MeshProxy, planMesh, startMesh, type TestMesh } from './support/mesh.ts';
import { lazy, suiteOwner } from './support/suite.ts';
import { type TlsCall, tlsCall } from './support/tls-calls.ts';
import { call, eventuallyAll } from './support/traffic.ts';

const BACKEND = 7481;
const HTTP = 7081;
const HTTPS = 7444;

interface Certificates {
  readonly root: CertificateFiles;
  readonly stranger: CertificateFiles;
  /** Certificates of servers, by name. */
  readonly a: CertificateFiles;
  readonly wild: CertificateFiles;
  /** Certificates of clients. */
  readonly client: CertificateFiles;
  readonly other: CertificateFiles;
  readonly unknown: CertificateFiles;
}

const owner = suiteOwner();
const address = planMesh();
const shared = lazy<{
  readonly mesh: TestMesh;
  readonly proxy: MeshProxy;
  readonly certificates: Certificates;
  readonly meshConfig: string;
}>();

before(async () => {
  const backend = await startEcho(owner, { name: 'backend', address: address(21), port: BACKEND });
  const [root, stranger] = await Promise.all([foreignRoot(owner), foreignRoot(owner)]);
  const [a, wild, client, other, unknown] = await Promise.all([
    signedBy(owner, root, 'DNS:a.example'),
    signedBy(owner, root, 'DNS:*.example'),
    signedBy(owner, root, 'DNS:client.example'),
    signedBy(owner, root, 'URI:spiffe://elsewhere/other'),
    signedBy(owner, stranger, 'DNS:client.example'),
  ]);
  const meshConfig = join(await tempDir(owner), 'mesh.yaml');
  await writeFile(meshConfig, 'defaultConfig: {}\n');
  const mesh = await startMesh(owner, address, {
    flags: ['--meshConfig', meshConfig],
    env: { CTL_HTTP10: 'true' },
    files: {
      services: [
        service('web', { ports: [{ name: 'http', port: BACKEND }] }),
        endpoints('web', [backend.address], [{ name: 'http', port: BACKEND }]),
      ],
    },
  });
  const proxy = await mesh.startProxy({ name: 'gateway', type: 'router', mode: 'delta', address: address(10) });
  shared.set({ mesh, proxy, certificates: { root, stranger, a, wild, client, other, unknown }, meshConfig });
});

interface ServerFields {
  readonly name: string;
  readonly hosts: readonly string[];
  readonly port?: number;
  readonly protocol?: string;
  readonly tls?: Document;
}

/** Gateway `front` with these servers, and routes for these hosts to the backend. */
async function serve(hosts: readonly string[], ...servers: readonly ServerFields[]): Promise<void> {
  const { mesh, proxy } = shared.get();
  const spec = {
    selector: { app: 'gateway' },
    servers: servers.map(({ name, hosts: own, port = HTTPS, protocol = 'HTTPS', tls }) => ({
      port: { number: port, name, protocol },
      hosts: own,
      bind: proxy.address,
      ...(tls === undefined ? {} : { tls }),
    })),
  };
  const to = { host: 'web.default.svc.cluster.local', port: { number: BACKEND } };
  await mesh.config.apply(
    'gateway',
    resource('Gateway', 'front', spec),
    resource('VirtualService', 'web', { hosts, gateways: ['front'], http: [{ route: [{ destination: to }] }] }),
  );
}

const files = ({ certificate, key }: CertificateFiles) => ({ serverCertificate: certificate, privateKey: key });

const to = (serverName: string, more: Partial<TlsCall> = {}) =>
  tlsCall({ address: shared.get().proxy.address, port: HTTPS, serverName, ...more });

const eventually = (check: () => Promise<void>) => eventuallyAll([0], check);

/** There was no answer: the handshake failed. */
const refused = (outcome: Promise<unknown>) =>
  assert.rejects(outcome, /alert|handshake|hang up|ECONNRESET|EPROTO|closed/i);

describe('server names', () => {
  test('exact names, wildcards and all other names have separate servers on one port', async () => {
    const { a, wild, other } = shared.get().certificates;
    await serve(
      ['*'],
      { name: 'a', hosts: ['a.example'], tls: { mode: 'SIMPLE', ...files(a) } },
      { name: 'wild', hosts: ['*.example'], tls: { mode: 'SIMPLE', ...files(wild) } },
    );
    await eventually(async () => {
      assert.equal((await to('a.example')).names, 'DNS:a.example');
      assert.equal((await to('b.example')).names, 'DNS:*.example');
      assert.equal((await to('c.b.example')).names, 'DNS:*.example');
      await refused(to('elsewhere.test'));
      await refused(to('', { host: 'a.example' }));
    });
    await serve(
      ['*'],
      { name: 'a', hosts: ['a.example'], tls: { mode: 'SIMPLE', ...files(a) } },
      { name: 'rest', hosts: ['*'], tls: { mode: 'SIMPLE', ...files(other) } },
    );
    await eventually(async () => {
      assert.equal((await to('a.example')).names, 'DNS:a.example');
      for (const name of ['b.example', 'elsewhere.test', '']) {
        assert.equal((await to(name, { host: 'b.example' })).names, 'URI:spiffe://elsewhere/other');
      }
    });
  });

  test('requests reach only the hosts of the server that their connection selected', async () => {
    const { a, wild } = shared.get().certificates;
    await serve(
      ['a.example', 'b.example'],
      { name: 'a', hosts: ['a.example'], tls: { mode: 'SIMPLE', ...files(a) } },
      { name: 'b', hosts: ['b.example'], tls: { mode: 'SIMPLE', ...files(wild) } },
    );
    await eventually(async () => {
      assert.equal((await to('a.example')).by, 'backend');
      assert.equal((await to('b.example')).by, 'backend');
      assert.equal((await to('a.example', { host: 'b.example' })).status, 404);
    });
  });

  test('hosts match with capitals and with a port', async () => {
    const { a } = shared.get().certificates;
    await serve(['A.Example'], { name: 'a', hosts: ['a.EXAMPLE'], tls: { mode: 'SIMPLE', ...files(a) } });
    await eventually(async () => {
      for (const host of ['a.example', 'A.EXAMPLE', `a.Example:${HTTPS}`, 'a.example:443']) {
        assert.equal((await to('a.example', { host })).by, 'backend', host);
      }
      assert.equal((await to('A.EXAMPLE')).by, 'backend');
      assert.equal((await to('a.example', { host: 'aa.example' })).status, 404);
    });
  });
});

describe('client certificates', () => {
  const mutual = (more: Document = {}): Document => {
    const { a, root } = shared.get().certificates;
    return { mode: 'MUTUAL', ...files(a), caCertificates: root.certificate, ...more };
  };
  const only = (tls: Document) => serve(['a.example'], { name: 'a', hosts: ['a.example'], tls });
  const seen = (outcome: { readonly reply: { readonly headers: object } | undefined }) =>
    String(new Map(Object.entries(outcome.reply?.headers ?? {})).get('x-forwarded-client-cert') ?? '');

  test('MUTUAL: only with a certificate of the authority, which is reported to the service', async () => {
    const { client, unknown } = shared.get().certificates;
    await only(mutual());
    await eventually(async () => {
      const headers = { 'x-forwarded-client-cert': 'By=spiffe://made/up;URI=spiffe://made/up' };
      const said = seen(await to('a.example', { certificate: client, headers }));
      assert.match(said, /DNS=client\.example/);
      assert.doesNotMatch(said, /made/);
      await refused(to('a.example'));
      await refused(to('a.example', { certificate: unknown }));
    });
  });

  test('OPTIONAL_MUTUAL: with a certificate of the authority, or without any', async () => {
    const { client, unknown } = shared.get().certificates;
    await only(mutual({ mode: 'OPTIONAL_MUTUAL' }));
    await eventually(async () => {
      assert.match(seen(await to('a.example', { certificate: client })), /DNS=client\.example/);
      const headers = { 'x-forwarded-client-cert': 'URI=spiffe://made/up' };
      assert.equal(seen(await to('a.example', { headers })), '');
      await refused(to('a.example', { certificate: unknown }));
    });
  });

  test('required names in the certificate, of hosts and of workloads', async () => {
    const { client, other } = shared.get().certificates;
    for (const [name, good, bad] of [
      ['client.example', client, other],
      ['spiffe://elsewhere/other', other, client],
    ] as const) {
      await only(mutual({ subjectAltNames: [name] }));
      await eventually(async () => {
        assert.equal((await to('a.example', { certificate: good })).by, 'backend');
        await refused(to('a.example', { certificate: bad }));
      });
    }
  });

  test('an exact certificate, and an exact key', async () => {
    const { client, other } = shared.get().certificates;
    const { createHash, X509Certificate } = await import('node:crypto');
    const certificate = new X509Certificate(await readFile(client.certificate));
    const spki = certificate.publicKey.export({ type: 'spki', format: 'der' });
    for (const pinned of [
      { verifyCertificateHash: [certificate.fingerprint256] },
      { verifyCertificateSpki: [createHash('sha256').update(spki).digest('base64')] },
    ]) {
      await only(mutual(pinned));
      await eventually(async () => {
        assert.equal((await to('a.example', { certificate: client })).by, 'backend');
        await refused(to('a.example', { certificate: other }));
      });
    }
  });

  test('a host that requires a certificate is not reachable by the name of another', async () => {
    const { wild, client } = shared.get().certificates;
    await serve(
      ['*'],
      { name: 'open', hosts: ['*'], tls: { mode: 'SIMPLE', ...files(wild) } },
      { name: 'private', hosts: ['private.example'], tls: mutual() },
    );
    await eventually(async () => {
      assert.equal((await to('open.example')).by, 'backend');
      assert.equal((await to('private.example', { certificate: client })).by, 'backend');
      await refused(to('private.example'));
      for (const host of ['private.example', 'PRIVATE.example', 'private.example:443']) {
        assert.equal((await to('open.example', { host })).status, 421, host);
      }
    });
    // Neither if the other server lists the host, too, but was selected by another name.
    const both = ['other.example', 'private.example'];
    for (const open of [both, ['*', 'private.example']]) {
      const own = { name: 'open', hosts: open, tls: { mode: 'SIMPLE', ...files(wild) } };
      const demanding = { name: 'private', hosts: ['private.example'], tls: mutual() };
      await serve(['*'], ...(open === both ? [demanding, own] : [own, demanding]));
      await eventually(async () => {
        assert.equal((await to('other.example')).by, 'backend');
        assert.equal((await to('private.example', { certificate: client })).by, 'backend');
        await refused(to('private.example'));
        assert.equal((await to('other.example', { host: 'private.example' })).status, 421);
      });
    }
  });
});

describe('versions and cipher suites', () => {
  const only = (more: Document) => {
    const { a } = shared.get().certificates;
    return serve(['a.example'], { name: 'a', hosts: ['a.example'], tls: { mode: 'SIMPLE', ...files(a), ...more } });
  };
  const VERSIONS = ['TLSv1', 'TLSv1.1', 'TLSv1.2', 'TLSv1.3'] as const;
  /** Whether each version is accepted. */
  async function taken(): Promise<string[]> {
    const outcomes = await Promise.all(
      VERSIONS.map((version) =>
        to('a.example', { version }).then(
          (outcome) => outcome.version,
          () => undefined,
        ),
      ),
    );
    return outcomes.filter((version) => typeof version === 'string');
  }
  const OLD = ['ECDHE-ECDSA-AES128-SHA'];
  const rows: readonly [string, Document, readonly string[]][] = [
    ['nothing said', {}, ['TLSv1.2', 'TLSv1.3']],
    ['from 1.3', { minProtocolVersion: 'TLSV1_3' }, ['TLSv1.3']],
    ['up to 1.2', { maxProtocolVersion: 'TLSV1_2' }, ['TLSv1.2']],
    [
      'old ones, with a suite that they know',
      { minProtocolVersion: 'TLSV1_0', maxProtocolVersion: 'TLSV1_1', cipherSuites: OLD },
      ['TLSv1', 'TLSv1.1'],
    ],
    ['automatic', { minProtocolVersion: 'TLS_AUTO', maxProtocolVersion: 'TLS_AUTO' }, ['TLSv1.2', 'TLSv1.3']],
  ];
  for (const [what, settings, expected] of rows) {
    test(`versions, ${what}: ${expected.join(', ')}`, async () => {
      await only(settings);
      await eventually(async () => assert.deepEqual(await taken(), expected));
    });
  }

  test('only the named suites are accepted', async () => {
    const [mine, others] = ['ECDHE-ECDSA-AES256-GCM-SHA384', 'ECDHE-ECDSA-AES128-GCM-SHA256'];
    await only({ maxProtocolVersion: 'TLSV1_2', cipherSuites: [mine] });
    await eventually(async () => {
      assert.equal((await to('a.example')).cipher, mine);
      assert.equal((await to('a.example', { ciphers: mine })).cipher, mine);
      await refused(to('a.example', { ciphers: others }));
    });
  });

  test('a suite that Envoy does not know is refused, and the last good version stays in force', async () => {
    await only({ maxProtocolVersion: 'TLSV1_2' });
    await eventually(async () => assert.deepEqual(await taken(), ['TLSv1.2']));
    await only({ cipherSuites: ['NO-SUCH-SUITE'] });
    const { mesh } = shared.get();
    await eventually(async () => assert.match(mesh.discovery().output(), /cipherSuites\[0\].*NO-SUCH-SUITE/));
    assert.deepEqual(await taken(), ['TLSv1.2']);
  });
});

describe('plain HTTP beside it', () => {
  const at = (host: string, path = '/', headers: Readonly<Record<string, string>> = {}) => ({
    address: shared.get().proxy.address,
    port: HTTP,
    host,
    path,
    headers,
  });

  test('httpsRedirect: to the port that serves the host over TLS, where the client names the gateway’s own', async () => {
    const { a } = shared.get().certificates;
    await serve(
      ['a.example', 'b.example'],
      { name: 'http', port: HTTP, protocol: 'HTTP', hosts: ['a.example'], tls: { httpsRedirect: true } },
      { name: 'http-b', port: HTTP, protocol: 'HTTP', hosts: ['b.example', 'c.example'] },
      { name: 'a', hosts: ['a.example'], tls: { mode: 'SIMPLE', ...files(a) } },
    );
    const location = async (host: string, path = '/x?y=z') => {
      const answer = await call(at(host, path));
      return `${answer.status} ${answer.location}`;
    };
    await eventually(async () => {
      assert.equal(await location('a.example'), '301 https://a.example/x?y=z');
      assert.equal(await location(`a.example:${HTTP}`), `301 https://a.example:${HTTPS}/x?y=z`);
      assert.equal(await location('a.example:80'), '301 https://a.example/x?y=z');
      // The client's claim that a proxy ended TLS is ignored: the request arrived in plain text.
      assert.equal((await call(at('a.example', '/', { 'x-forwarded-proto': 'https' }))).status, 301);
      assert.equal((await call(at('b.example'))).by, 'backend');
      assert.equal((await call(at('c.example'))).status, 404);
    });
    assert.equal((await to('a.example')).by, 'backend');
  });

  test('HTTP/1.0 is served where it is enabled', async () => {
    await serve(['a.example'], { name: 'http', port: HTTP, protocol: 'HTTP', hosts: ['*'] });
    const { exchange } = await import('../harness/index.ts');
    const { proxy } = shared.get();
    await eventually(async () => {
      const send = 'GET / HTTP/1.0\r\nHost: a.example\r\n\r\n';
      const text = await exchange({ address: proxy.address, port: HTTP, send, until: '"name"' });
      assert.match(text, /^HTTP\/1\.0 200/);
    });
  });

  test('the gateway itself determines client address and scheme, unless proxies in front are trusted', async () => {
    await serve(['*'], { name: 'http', port: HTTP, protocol: 'HTTP', hosts: ['*'] });
    const spoofed = { 'x-forwarded-for': '203.0.113.1, 203.0.113.2', 'x-envoy-external-address': '203.0.113.3' };
    const external = async () =>
      String((await call(at('a.example', '/', spoofed))).reply?.headers['x-envoy-external-address'] ?? 'none');
    await eventually(async () => assert.doesNotMatch(await external(), /203\.0/));
    const { meshConfig } = shared.get();
    await writeFile(meshConfig, 'defaultConfig: {gatewayTopology: {numTrustedProxies: 1}}\n');
    await eventually(async () => assert.equal(await external(), '203.0.113.2'));
    const redirecting = { name: 'http', port: HTTP, protocol: 'HTTP', hosts: ['*'], tls: { httpsRedirect: true } };
    await serve(['*'], redirecting);
    // A trusted proxy ended TLS.
    await eventually(async () => {
      assert.equal((await call(at('a.example'))).status, 301);
      assert.equal((await call(at('a.example', '/', { 'x-forwarded-proto': 'https' }))).by, 'backend');
    });
  });

  test('Envoy names itself by the mesh’s server name, without a version', async () => {
    await serve(['*'], { name: 'http', port: HTTP, protocol: 'HTTP', hosts: ['*'] });
    await eventually(async () => assert.equal((await request(at('a.example'))).headers.server, 'mesh-envoy'));
  });
});
