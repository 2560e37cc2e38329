/**
 * TLS that a sidecar terminates for callers outside of the mesh (`ingress[].tls` of a Sidecar): which callers each mode
 * accepts beside each mode of PeerAuthentication, and that plain text is never accepted instead. Through agents, real
 * Envoys and redirection.
 */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { type EchoReply, eventually, netnsUnavailable } from '../harness/index.ts';
import { type Document, resource } from './support/config.ts';
import { type CertificateFiles, foreignRoot, signedBy } from './support/foreign-certificate.ts';
import { type IdentityWorld, sharedService, startIdentityWorld, type Workload } from './support/identity-world.ts';
import { lazy, suiteOwner } from './support/suite.ts';

const skip = (await netnsUnavailable()) ?? false;
const NAMESPACE = 'foo';
const HOST = 'web.example';
/** Inbound ports of the sidecar. */
const [HTTPS, TLS, PLAIN] = [8443, 8444, 8088];
/** Address of a Service in front of them. */
const SERVICE = '10.96.2.1';
const PATIENCE = { timeoutMs: 30_000 };

interface Shared {
  readonly world: IdentityWorld;
  readonly web: Workload;
  readonly api: Workload;
  readonly plain: Workload;
  /** The authority of the server's certificate and of clients outside of the mesh, which the mesh does not trust. */
  readonly authority: CertificateFiles;
  readonly server: CertificateFiles;
  readonly client: CertificateFiles;
  /** Names a workload of the mesh. */
  readonly impostor: CertificateFiles;
  /** A client of another authority. */
  readonly stranger: CertificateFiles;
}

const owner = suiteOwner();
const shared = lazy<Shared>();

before(async () => {
  if (skip !== false) return;
  const [authority, other] = await Promise.all([foreignRoot(owner), foreignRoot(owner)]);
  const [server, client, impostor, stranger] = await Promise.all([
    signedBy(owner, authority, `DNS:${HOST}`),
    signedBy(owner, authority, 'DNS:client.example'),
    signedBy(owner, authority, 'URI:spiffe://cluster.local/ns/foo/sa/api'),
    signedBy(owner, other, 'DNS:client.example'),
  ]);
  const world = await startIdentityWorld(owner);
  const [web, api, plain] = await Promise.all([
    world.addWorkload({ name: 'web', namespace: NAMESPACE, proxied: true }),
    world.addWorkload({ name: 'api', namespace: NAMESPACE, proxied: true }),
    world.addWorkload({ name: 'plain', namespace: 'legacy', proxied: false }),
  ]);
  await world.config.apply(
    'service',
    ...sharedService('ingress', SERVICE, [web], [{ name: 'http', port: HTTPS, targetPort: HTTPS }]),
  );
  shared.set({ world, web, api, plain, authority, server, client, impostor, stranger });
});

/** The Sidecar with these TLS settings, and PeerAuthentication with this mode: all in force when it returns. */
async function apply(tls: Document, mode?: string, ...more: readonly Document[]): Promise<void> {
  const { world, web, plain, server } = shared.get();
  const files = { serverCertificate: server.certificate, privateKey: server.key };
  const settings = 'credentialName' in tls ? tls : { ...files, ...tls };
  const version = `version-${++versions}`;
  const listener = (number: number, protocol: string, endpoint: number, own?: Document) => ({
    port: { number, protocol, name: `${protocol.toLowerCase()}-${number}` },
    defaultEndpoint: `127.0.0.1:${endpoint}`,
    ...(own && { tls: own }),
  });
  const ingress = [
    listener(HTTPS, 'HTTPS', 8080, settings),
    listener(TLS, 'TLS', 8080, settings),
    listener(PLAIN, 'HTTP', 8080),
  ];
  const selector = { matchLabels: { app: 'web' } };
  const denied = {
    action: 'DENY',
    selector,
    rules: [{ to: [{ operation: { paths: [`/${version}`], ports: ['8088'] } }] }],
  };
  await world.config.apply(
    'ingress',
    resource('Sidecar', 'web', { workloadSelector: { labels: { app: 'web' } }, ingress }, NAMESPACE),
    resource('AuthorizationPolicy', 'arrived', denied, NAMESPACE),
    ...(mode === undefined
      ? []
      : [
          resource(
            'PeerAuthentication',
            'web',
            { selector, portLevelMtls: { [HTTPS]: { mode }, [TLS]: { mode } } },
            NAMESPACE,
          ),
        ]),
    ...more,
  );
  await eventually(
    async () => assert.equal(await curl(plain, `http://${web.netns.address}:${PLAIN}/${version}`), '403'),
    PATIENCE,
  );
}
let versions = 0;

/** Status and identity that the application saw, or `refused`. */
async function curl(from: Workload, url: string, ...args: readonly string[]): Promise<string> {
  const script = 'curl -s -m 20 "$@"; true';
  const text = await from.netns.run('sh', '-c', script, 'curl', '-w', '\n%{http_code}', ...args, url);
  const [, body = '', status = ''] = /^([\s\S]*)\n(\d+)$/.exec(text) ?? [];
  if (status === '000') return 'refused';
  if (status !== '200') return status;
  const { headers } = JSON.parse(body) as EchoReply;
  const seen = headers['x-forwarded-client-cert'];
  return seen === undefined ? '200' : `200 ${String(seen).replace(/Hash=[0-9a-f]{64}/, 'Hash')}`;
}

/** A call from outside of the mesh to a port of the workload: over TLS, with a client's certificate or without. */
function overTls(port: number, certificate?: CertificateFiles, ...more: readonly string[]): Promise<string> {
  const { plain, web, authority } = shared.get();
  const own = certificate === undefined ? [] : ['--cert', certificate.certificate, '--key', certificate.key];
  const target = ['--connect-to', `${HOST}:${port}:${web.netns.address}:${port}`, '--cacert', authority.certificate];
  return curl(plain, `https://${HOST}:${port}/`, ...target, ...own, ...more);
}

/** The same in plain text. */
function inPlainText(port: number): Promise<string> {
  const { plain, web } = shared.get();
  return curl(plain, `http://${web.netns.address}:${port}/`);
}

/** A call by a workload of the mesh to the Service, which its proxy makes over mutual TLS where that is accepted. */
function byMesh(): Promise<string> {
  return curl(shared.get().api, `http://${SERVICE}:${HTTPS}/`);
}

const MESH = '200 By=spiffe://cluster.local/ns/foo/sa/web;Hash;Subject="";URI=spiffe://cluster.local/ns/foo/sa/api';

describe('TLS of ingress listeners', { skip }, () => {
  test('SIMPLE: TLS from outside, no plain text', async () => {
    await apply({ mode: 'SIMPLE' }, 'DISABLE');
    assert.equal(await overTls(HTTPS), '200');
    assert.equal(await overTls(HTTPS, undefined, '--http1.1'), '200');
    assert.equal(await overTls(HTTPS, undefined, '-H', 'x-forwarded-client-cert: By=forged'), '200');
    // Connections of protocol TLS are forwarded as bytes, here to an application that speaks HTTP.
    assert.equal(await overTls(TLS, undefined, '--http1.1'), '200');
    for (const port of [HTTPS, TLS]) assert.equal(await inPlainText(port), 'refused');
    // Proxies of the mesh send plain text to a port that accepts no mutual TLS of the mesh.
    assert.equal(await byMesh(), '503');
    assert.equal(await inPlainText(PLAIN), '200', 'a port without it');
  });

  test('beside PERMISSIVE, also by default: TLS from outside, mutual TLS of the mesh, no plain text', async () => {
    for (const mode of [undefined, 'PERMISSIVE']) {
      await apply({ mode: 'SIMPLE' }, mode);
      assert.equal(await overTls(HTTPS), '200');
      assert.equal(await byMesh(), MESH);
      for (const port of [HTTPS, TLS]) assert.equal(await inPlainText(port), 'refused');
    }
  });

  test('beside STRICT: mutual TLS of the mesh alone, and a report', async () => {
    await apply({ mode: 'SIMPLE' }, 'STRICT');
    assert.equal(await byMesh(), MESH);
    for (const port of [HTTPS, TLS]) {
      assert.equal(await overTls(port, undefined, '--http1.1'), 'refused');
      assert.equal(await inPlainText(port), 'refused');
    }
    assert.match(await shared.get().world.http('/debug/push_status'), /port 8443: tls of the Sidecar has no effect/);
  });

  test('MUTUAL: clients need a certificate of the authority', async () => {
    const { authority, client, impostor, stranger } = shared.get();
    await apply({ mode: 'MUTUAL', caCertificates: authority.certificate }, 'DISABLE');
    assert.equal(await overTls(HTTPS, impostor), '200 Hash;Subject=""', 'no identity of the mesh for the application');
    assert.equal(await overTls(HTTPS, client), '200 Hash;Subject="";DNS=client.example');
    assert.equal(await overTls(TLS, client, '--http1.1'), '200');
    for (const port of [HTTPS, TLS]) {
      assert.equal(await overTls(port, undefined, '--http1.1'), 'refused');
      assert.equal(await overTls(port, stranger, '--http1.1'), 'refused');
      assert.equal(await inPlainText(port), 'refused');
    }
    await apply({ mode: 'MUTUAL', caCertificates: authority.certificate, subjectAltNames: ['a.example'] }, 'DISABLE');
    assert.equal(await overTls(HTTPS, client, '--http1.1'), 'refused', 'another name');
  });

  test('OPTIONAL_MUTUAL: a certificate that is shown must be valid', async () => {
    const { authority, client, stranger } = shared.get();
    await apply({ mode: 'OPTIONAL_MUTUAL', caCertificates: authority.certificate }, 'DISABLE');
    assert.equal(await overTls(HTTPS, client), '200 Hash;Subject="";DNS=client.example');
    assert.equal(await overTls(HTTPS), '200');
    assert.equal(await overTls(HTTPS, stranger, '--http1.1'), 'refused');
    assert.equal(await inPlainText(HTTPS), 'refused');
  });

  test('a certificate of another authority confers no identity of the mesh', async () => {
    const { authority, impostor } = shared.get();
    const allow = resource(
      'AuthorizationPolicy',
      'only-api',
      {
        selector: { matchLabels: { app: 'web' } },
        rules: [
          { from: [{ source: { principals: ['cluster.local/ns/foo/sa/api'] } }] },
          { to: [{ operation: { ports: [String(PLAIN)] } }] },
        ],
      },
      NAMESPACE,
    );
    await apply({ mode: 'MUTUAL', caCertificates: authority.certificate }, 'PERMISSIVE', allow);
    assert.equal(await byMesh(), MESH);
    assert.equal(await overTls(HTTPS, impostor), '403');
    assert.equal(await overTls(TLS, impostor, '--http1.1'), 'refused');
  });

  test('settings that cannot be acted on close the port to callers outside of the mesh, and are reported', async () => {
    const { world } = shared.get();
    await apply({ mode: 'SIMPLE', credentialName: 'secret' }, 'DISABLE');
    for (const port of [HTTPS, TLS]) {
      assert.equal(await overTls(port, undefined, '--http1.1'), 'refused');
      assert.equal(await inPlainText(port), 'refused');
    }
    assert.equal(await byMesh(), '503');
    assert.match(
      world.discoveryOutput(),
      /ingress\.yaml:\d+: Sidecar\/foo\/web: spec\.ingress\[0\]\.tls\.credentialName: /,
    );
    assert.match(await world.http('/debug/push_status'), /port 8443: clients outside the mesh are denied/);
    await apply({ mode: 'SIMPLE', credentialName: 'secret' }, 'PERMISSIVE');
    assert.equal(await byMesh(), MESH);
    assert.equal(await inPlainText(HTTPS), 'refused');
  });

  test('a missing file closes its port and no other', async () => {
    await apply({ mode: 'SIMPLE', serverCertificate: '/nowhere/cert.pem' }, 'DISABLE');
    assert.equal(await overTls(HTTPS, undefined, '--http1.1'), 'refused');
    assert.equal(await inPlainText(HTTPS), 'refused');
    assert.equal(await inPlainText(PLAIN), '200');
  });
});
