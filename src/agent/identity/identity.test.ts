/** The identity part with a fake certificate service: tokens, certificates, roots, and refused input. */
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { rename, rm, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { closeLogging, configureLogging } from '../../logging/index.ts';
import { readCertFiles, writeCertFiles } from './cert-files.ts';
import { secretsOf } from './certificates.ts';
import { certificateSet, type TestRoot, testRoot } from './testing/certificates.ts';
import { eventually, metric, SHORT_LIFE_MS, site } from './testing/site.ts';

const URI = 'spiffe://cluster.local/ns/default/sa/web';

test('the token is read for each request, and the certificate is sent as soon as there is one', async (context) => {
  const { ca, start, writeToken } = await site(context);
  ca.lifeMs = SHORT_LIFE_MS;
  const first = await writeToken(3600);
  const identity = await start({ secretLifetimeSeconds: 90 });
  await eventually(() => assert.equal(ca.calls.length, 2));
  const second = await writeToken(3600);
  await eventually(() => assert.equal(ca.calls.length, 4));
  const signing = ca.calls.filter(({ method }) => method === 'CreateCertificate');
  assert.deepEqual(
    signing.map(({ authorization }) => authorization),
    [`Bearer ${first}`, `Bearer ${second}`],
  );
  assert.equal(signing[0]?.validitySeconds, 90);
  assert.equal(metric(identity, 'num_outgoing_requests'), 2);
  assert.equal(metric(identity, 'num_outgoing_requests', 'trust_bundle'), 2);
  assert.equal(metric(identity, 'num_failed_outgoing_requests'), 0);
});

test('an expired token is not sent, and a new one is used without a restart', async (context) => {
  const { ca, start, writeToken } = await site(context);
  await writeToken(-10);
  const identity = await start();
  await eventually(() => assert.ok(metric(identity, 'num_outgoing_retries') >= 3));
  assert.equal(ca.calls.length, 0);
  await writeToken(10);
  await eventually(() => assert.notEqual(identity.secrets.current(), undefined));
});

test('SKIP_PARSE_TOKEN sends any token', async (context) => {
  const { ca, start, files } = await site(context);
  await writeFile(files.token, 'opaque');
  await start({ skipParseToken: true });
  await eventually(() => assert.equal(ca.calls[0]?.authorization, 'Bearer opaque'));
});

/** Collects the log from here on. */
function collectLog(context: TestContext, folder: string): () => string {
  const file = join(folder, 'log');
  const none = { json: false, callerScopes: new Set<never>(), outputLevels: new Map(), stackLevels: new Map() };
  configureLogging({ ...none, targets: [file] });
  context.after(closeLogging);
  return () => textOf(file);
}

function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

async function provision(directory: string, root: TestRoot): Promise<string> {
  const set = certificateSet(root, URI);
  await writeCertFiles(directory, secretsOf(set.key, [set.leaf], set.root, Date.now()));
  return new X509Certificate(set.leaf).fingerprint256;
}

test('a virtual machine uses the provisioned certificate, then its own, also after a restart', async (context) => {
  const { ca, start, folder } = await site(context, { certificateRequired: true });
  const provisioned = join(folder, 'provisioned');
  const output = join(folder, 'out');
  const given = await provision(provisioned, ca.root);
  ca.lifeMs = SHORT_LIFE_MS;
  const settings = { provCert: provisioned, outputCerts: output, caRootsFile: join(folder, 'none') };
  const identity = await start(settings);
  await eventually(() => assert.ok(ca.calls.length >= 4));
  const [first] = ca.issued;
  assert.deepEqual(
    ca.calls.slice(0, 4).map(({ certificate }) => certificate),
    [given, given, first, first],
  );
  assert.equal(ca.calls[0]?.authorization, undefined);
  ca.lifeMs = 3_600_000;
  await eventually(() => assert.ok((identity.secrets.current()?.certificate.expiresAt ?? 0) > Date.now() + 60_000));
  await identity.close();
  const kept = await readCertFiles(output, Date.now());
  assert.equal(kept.certificate.key, identity.secrets.current()?.certificate.key);
  const calls = ca.calls.length;
  await start(settings);
  await eventually(() => assert.ok(ca.calls.length > calls));
  assert.equal(ca.calls[calls]?.certificate, new X509Certificate(kept.certificate.chain).fingerprint256);
});

test('with an expired token a restart uses the stored certificate, else the log has the remedy', async (context) => {
  const { ca, start, folder, files, writeToken } = await site(context);
  const kept = join(folder, 'certs');
  const settings = { provCert: kept, outputCerts: kept };
  const lines = collectLog(context, folder);
  await writeToken(100);
  const identity = await start(settings);
  await eventually(() => assert.notEqual(identity.secrets.current(), undefined));
  await identity.close();
  // The folder is empty at first.
  assert.doesNotMatch(lines(), /PROV_CERT/);

  await writeToken(-10);
  const before = ca.calls.length;
  const again = await start(settings);
  await eventually(() => assert.notEqual(again.secrets.current(), undefined));
  assert.equal(ca.calls[before]?.authorization, undefined);
  await again.close();
  assert.equal((await readCertFiles(kept, Date.now())).certificate.key, again.secrets.current()?.certificate.key);

  await rm(kept, { recursive: true });
  await start(settings);
  const advice = 'write a new token to FILE (ctl-discovery issue-token); no restart is needed';
  await eventually(() => assert.ok(lines().includes(advice.replace('FILE', files.token)), lines()));
});

test('deleted files of OUTPUT_CERTS and CA_ROOT_CA are reported, and the former written again', async (context) => {
  const { start, folder, files, writeToken } = await site(context);
  const output = join(folder, 'out');
  const lines = collectLog(context, folder);
  await writeToken(100);
  await start({ outputCerts: output, secretRotationCheckIntervalMs: 50 });
  const key = (): string => textOf(join(output, 'key.pem'));
  await eventually(() => assert.notEqual(key(), ''));
  const first = key();
  // In one step: a folder that is emptied file by file can be written to meanwhile.
  await rename(output, join(folder, 'moved'));
  await eventually(() => assert.equal(key(), first));
  assert.match(lines(), /OUTPUT_CERTS: .*there is no such file; the files are written again/);
  await rm(files.roots);
  await eventually(() => assert.match(lines(), /CA_ROOT_CA: the roots known so far stay in force: .*ENOENT/));
});

test('USE_TOKEN_FOR_CSR sends no request without a token, even with a certificate', async (context) => {
  const { ca, start, folder, writeToken } = await site(context);
  const provisioned = join(folder, 'provisioned');
  await provision(provisioned, ca.root);
  const identity = await start({ provCert: provisioned, useTokenForCsr: true });
  await eventually(() => assert.ok(metric(identity, 'num_outgoing_retries') >= 3));
  assert.equal(ca.calls.length, 0);
  await writeToken(100);
  await eventually(() => assert.notEqual(identity.secrets.current(), undefined));
});

test('without a trust bundle a certificate is used, and earlier roots stay trusted beside its own', async (context) => {
  const { ca, start, writeToken } = await site(context);
  await writeToken(100);
  ca.bundle = [ca.root.pem];
  ca.lifeMs = SHORT_LIFE_MS;
  const first = ca.root.pem;
  const identity = await start();
  await eventually(() => assert.equal(identity.secrets.current()?.roots, first));
  ca.bundleFails = true;
  ca.root = testRoot('second');
  await eventually(() => assert.equal(identity.secrets.current()?.roots, first + ca.root.pem));
});

test('an authority that the roots do not verify is sent no token, and new roots are used', async (context) => {
  const { ca, start, files, writeToken } = await site(context);
  await writeToken(100);
  await writeFile(files.roots, testRoot('another').pem);
  const identity = await start();
  await eventually(() => assert.ok(metric(identity, 'num_failed_outgoing_requests') >= 2));
  assert.equal(ca.calls.length, 0);
  await writeFile(files.roots, ca.root.pem);
  await eventually(() => assert.notEqual(identity.secrets.current(), undefined));
});

test("the owner's socket replaces that of a dead process, but no live one and no other file", async (context) => {
  const { folder, start } = await site(context);
  const path = join(folder, 'own', 'SDS');
  const first = await start({}, { sdsPath: path });
  assert.equal((await stat(path)).mode & 0o777, 0o600);
  assert.equal((await stat(join(folder, 'own'))).mode & 0o777, 0o700);
  await assert.rejects(start({}, { sdsPath: path }), {
    code: 'already_exists',
    message: 'another process is listening on it',
  });
  await first.close();
  await assert.rejects(stat(path), { code: 'ENOENT' });

  // A killed process leaves a socket without a listener.
  const left = createServer();
  await new Promise<void>((resolve) => left.listen(`${path}.bound`, resolve));
  await rename(`${path}.bound`, path);
  await new Promise((resolve) => left.close(resolve));
  assert.ok((await stat(path)).isSocket());
  await start({}, { sdsPath: path });

  await writeFile(join(folder, 'file'), 'precious');
  await assert.rejects(start({}, { sdsPath: join(folder, 'file') }), { code: 'already_exists' });
  await assert.rejects(start({}, { sdsPath: join(folder, 'x'.repeat(200)) }), { code: 'invalid_argument' });
});

for (const [what, settings, options, field] of [
  ['another provider', { caProvider: 'Cloud' }, {}, 'CA_PROVIDER'],
  ['a cloud without address', { caProvider: 'GoogleCA' }, {}, 'CA_ADDR'],
  ['a SPIFFE socket that is missing', { caProvider: 'SPIFFE' }, {}, 'SPIFFE_ENDPOINT_SOCKET'],
  ['a SPIFFE socket that is none', { caProvider: 'SPIFFE', caAddress: 'tcp://127.0.0.1:1' }, {}, 'CA_ADDR'],
  ['another signature', { eccSignatureAlgorithm: 'DSA' }, {}, 'ECC_SIGNATURE_ALGORITHM'],
  ['another policy', { jwtPolicy: 'none', caTokenFile: '' }, {}, 'JWT_POLICY'],
  ['a share that is none', { secretGracePeriodRatio: 1.5 }, {}, 'SECRET_GRACE_PERIOD_RATIO'],
  ['plain text', {}, { caServer: { host: 'meshd', port: 15010, serverName: 'meshd', tls: false } }, 'CA_ADDR'],
] as const) {
  test(`${what} is refused before anything is started`, async (context) => {
    const { start } = await site(context);
    await assert.rejects(start(settings, options), { name: 'CtlError', location: { field } });
  });
}

test('a lifetime without limit is requested as the largest number', async (context) => {
  const { ca, start, writeToken } = await site(context);
  await writeToken(3600);
  await start({ secretLifetimeSeconds: Number.POSITIVE_INFINITY });
  await eventually(() => assert.equal(ca.calls[0]?.validitySeconds, Number.MAX_SAFE_INTEGER));
});
