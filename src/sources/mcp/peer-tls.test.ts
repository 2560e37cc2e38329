import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { PeerCertificate } from 'node:tls';
import { fakeClock } from '../../core/testing/fake-clock.ts';
import { waitUntil } from '../../core/testing/wait-until.ts';
import { makeCa } from '../../security/testing/credentials.ts';
import { createPeerTls } from './peer-tls.ts';

const none = Promise.resolve(undefined);

test('files are read for each connection, and a change of them opens another one', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'meshd-peer-tls-'));
  after(() => rm(folder, { recursive: true }));
  const [one, two] = [makeCa({ name: 'one' }), makeCa({ name: 'two' })];
  const path = (name: string): string => join(folder, name);
  const write = async (ca: typeof one): Promise<void> => {
    await writeFile(path('ca.pem'), ca.certificate);
    await writeFile(path('cert.pem'), ca.certificate);
    await writeFile(path('key.pem'), ca.key);
  };
  const clock = fakeClock();
  const files = { clientCertificate: path('cert.pem'), privateKey: path('key.pem'), caCertificates: path('ca.pem') };
  const tls = createPeerTls({ settings: { mode: 'MUTUAL', ...files }, host: 'far', certificate: none, clock });
  assert.ok(tls);
  await assert.rejects(tls.current(), /tlsSettings.caCertificates: .*ca.pem cannot be read/);
  await write(one);
  assert.deepEqual(await tls.current(), {
    serverName: 'far',
    roots: one.certificate,
    client: { chain: one.certificate, key: one.key },
  });
  let changes = 0;
  const stop = tls.onChange(() => {
    changes += 1;
  });
  const look = async (): Promise<void> => {
    clock.pass(10_000);
    // The next look is planned when this one has ended.
    await waitUntil(() => clock.pending().length === 1);
  };
  await look();
  assert.equal(changes, 0);
  // A key without its certificate, as between two writes.
  await writeFile(path('key.pem'), two.key);
  await look();
  assert.equal(changes, 0);
  await assert.rejects(tls.current(), /the files of tlsSettings are not usable/);
  await write(two);
  await look();
  assert.equal(changes, 1);
  stop();
  assert.deepEqual(clock.pending(), []);
});

test('the own certificate is used with the roots of the mesh, and followed', async () => {
  let listener = (): void => {};
  const settings = { mode: 'MESH_MUTUAL', sni: 'hub.example' } as const;
  const pair = { chain: 'chain', key: 'key' };
  const onChange = (changed: () => void) => {
    listener = changed;
    return () => {};
  };
  let bundle: string | undefined = 'roots';
  const certificate = Promise.resolve({ pair: () => pair, caBundle: () => bundle, onChange });
  const tls = createPeerTls({ settings, host: '127.0.0.1', certificate, clock: fakeClock() });
  assert.deepEqual(await tls?.current(), { serverName: 'hub.example', roots: 'roots', client: pair });
  let changes = 0;
  tls?.onChange(() => {
    changes += 1;
  });
  await certificate;
  listener();
  assert.equal(changes, 1);
  bundle = undefined;
  await assert.rejects(async () => tls?.current(), /MESH_MUTUAL need a certificate of this control plane and its CA/);
  const missing = createPeerTls({ settings, host: 'a', certificate: none, clock: fakeClock() });
  await assert.rejects(async () => missing?.current(), /MESH_MUTUAL need a certificate/);
  assert.equal(createPeerTls({ settings: {}, host: 'a', certificate: none, clock: fakeClock() }), undefined);
});

test('a server must have one of the names of subjectAltNames, if there are any', async () => {
  const subjectAltNames = ['spiffe://cluster.local/ns/mesh-system/sa/hub', 'hub.example'];
  const certificate = Promise.resolve({
    pair: () => ({ chain: '', key: '' }),
    caBundle: () => '',
    onChange: () => () => {},
  });
  const settings = { mode: 'MESH_MUTUAL', subjectAltNames } as const;
  const tls = await createPeerTls({ settings, host: 'a', certificate, clock: fakeClock() })?.current();
  const check = (subjectaltname?: string) => tls?.checkServer?.({ subjectaltname } as PeerCertificate)?.message;
  assert.equal(check('DNS:other, URI:spiffe://cluster.local/ns/mesh-system/sa/hub'), undefined);
  assert.equal(check('DNS:hub.example'), undefined);
  for (const names of [undefined, '', 'DNS:a.hub.example', 'URI:spiffe://cluster.local/ns/mesh-system/sa/hub2'])
    assert.match(check(names) ?? '', /^its certificate has none of spiffe:/);
});
