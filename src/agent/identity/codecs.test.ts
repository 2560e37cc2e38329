/** Compares the agent's own encodings with generated code and openssl. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createPrivateKey } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import fc from 'fast-check';
import { CtlError } from '../../core/errors.ts';
import { envoy, mesh } from '../../protobuf/index.ts';
import { keyKind, newKeyAndRequest } from './csr.ts';
import { frame, frameReader } from './grpc-frame.ts';
import {
  authoritiesSecret,
  certificateRequest,
  certificateSecret,
  deltaRequest,
  deltaResponse,
  pemList,
  SECRET_TYPE,
  sotwRequest,
  sotwResponse,
} from './messages.ts';

const { Secret } = envoy.extensions.transport_sockets.tls.v3;
const discovery = envoy.service.discovery.v3;
const run = promisify(execFile);
const URI = 'spiffe://cluster.local/ns/default/sa/web';

test('requests of the proxy that the generated code wrote are read', () => {
  const names = fc.array(fc.string(), { maxLength: 5 });
  const error = fc.option(fc.string(), { nil: undefined });
  fc.assert(
    fc.property(
      names,
      names,
      fc.string(),
      error,
      fc.dictionary(fc.string(), fc.string()),
      (a, b, nonce, message, known) => {
        const node = { id: 'sidecar~1.2.3.4~a.b~c', metadata: { fields: { A: { numberValue: 1.5 } } } };
        const errorDetail = message === undefined ? {} : { errorDetail: { code: 13, message } };
        const sotw = {
          node,
          versionInfo: 'v',
          resourceNames: a,
          typeUrl: SECRET_TYPE,
          responseNonce: nonce,
          ...errorDetail,
        };
        assert.deepEqual(sotwRequest(discovery.DiscoveryRequest.encode(sotw).finish()), {
          typeUrl: SECRET_TYPE,
          names: a,
          nonce,
          error: message,
        });
        const delta = {
          node,
          typeUrl: SECRET_TYPE,
          resourceNamesSubscribe: a,
          resourceNamesUnsubscribe: b,
          initialResourceVersions: known,
          responseNonce: nonce,
          ...errorDetail,
        };
        assert.deepEqual(deltaRequest(discovery.DeltaDiscoveryRequest.encode(delta).finish()), {
          typeUrl: SECRET_TYPE,
          subscribe: a,
          unsubscribe: b,
          initialVersions: new Map(Object.entries(known)),
          nonce,
          error: message,
        });
      },
    ),
  );
});

test('the generated code reads responses and secrets', () => {
  const certificate = { key: 'the key', chain: 'é chain', notBefore: 0, expiresAt: 1 };
  const bytes = certificateSecret('default', certificate);
  const secret = Secret.decode(bytes);
  assert.equal(secret.name, 'default');
  assert.equal(Buffer.from(secret.tlsCertificate?.certificateChain?.inlineBytes ?? []).toString(), 'é chain');
  assert.equal(Buffer.from(secret.tlsCertificate?.privateKey?.inlineBytes ?? []).toString(), 'the key');
  const roots = Secret.decode(authoritiesSecret('ROOTCA', 'r'.repeat(70_000)));
  assert.equal(roots.validationContext?.trustedCa?.inlineBytes?.length, 70_000);

  const resource = { name: 'default', version: 'v1', bytes };
  const sotw = discovery.DiscoveryResponse.decode(sotwResponse([resource], 'v1', '7'));
  assert.deepEqual([sotw.versionInfo, sotw.typeUrl, sotw.nonce], ['v1', SECRET_TYPE, '7']);
  assert.equal(sotw.resources[0]?.typeUrl, SECRET_TYPE);
  assert.deepEqual(Buffer.from(sotw.resources[0]?.value ?? []), Buffer.from(bytes));
  const delta = discovery.DeltaDiscoveryResponse.decode(deltaResponse([resource], ['gone', 'too'], '8'));
  assert.deepEqual([delta.typeUrl, delta.nonce, delta.removedResources], [SECRET_TYPE, '8', ['gone', 'too']]);
  assert.deepEqual([delta.resources[0]?.name, delta.resources[0]?.version], ['default', 'v1']);
  assert.deepEqual(Buffer.from(delta.resources[0]?.resource?.value ?? []), Buffer.from(bytes));
});

test('the messages of the certificate service match its .proto file', () => {
  const request = mesh.v1.auth.MeshCertificateRequest.decode(certificateRequest('csr', 86_400));
  assert.deepEqual([request.csr, Number(request.validityDuration)], ['csr', 86_400]);
  const certChain = ['a', 'b'.repeat(300), 'c'];
  assert.deepEqual(pemList(mesh.v1.auth.MeshCertificateResponse.encode({ certChain }).finish()), certChain);
  assert.deepEqual(pemList(mesh.v1.auth.TrustBundleResponse.encode({ roots: certChain }).finish()), certChain);
});

test('arbitrary bytes are read or refused with CtlError', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      for (const read of [sotwRequest, deltaRequest, pemList]) {
        try {
          read(bytes);
        } catch (error) {
          assert.ok(error instanceof CtlError);
        }
      }
    }),
  );
  assert.throws(() => pemList(Buffer.from([0x0a, 0x05, 0x61])), { code: 'invalid_argument' });
});

test('messages are read from frames in any chunks, and large ones are refused by their length', () => {
  fc.assert(
    fc.property(
      fc.array(fc.uint8Array({ maxLength: 50 }), { maxLength: 6 }),
      fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 20 }),
      (messages, cuts) => {
        const bytes = Buffer.concat(messages.map((message) => frame(message)));
        const read = frameReader(50);
        const found: Buffer[] = [];
        for (let at = 0, turn = 0; at < bytes.length; turn++) {
          const cut = cuts[turn % cuts.length] ?? 1;
          found.push(...read(bytes.subarray(at, at + cut)));
          at += cut;
        }
        assert.deepEqual(
          found.map((each) => each.toString('hex')),
          messages.map((each) => Buffer.from(each).toString('hex')),
        );
      },
    ),
  );
  assert.throws(() => frameReader(50)(Buffer.from([0, 0, 0, 0, 51])), { code: 'resource_exhausted' });
  assert.throws(() => frameReader(50)(Buffer.from([1, 0, 0, 0, 1])), { code: 'unimplemented' });
});

for (const [kind, pkcs8, label] of [
  ['RSA', false, 'RSA PRIVATE KEY'],
  ['RSA', true, 'PRIVATE KEY'],
  ['ECDSA', false, 'EC PRIVATE KEY'],
  ['ECDSA', true, 'PRIVATE KEY'],
] as const) {
  test(`openssl verifies the request of a key of ${kind}, written as ${label}`, async (context) => {
    const folder = await mkdtemp(join(tmpdir(), 'csr-'));
    context.after(() => rm(folder, { recursive: true }));
    const { key, csr } = await newKeyAndRequest(kind, pkcs8, URI);
    assert.match(key, new RegExp(`^-----BEGIN ${label}-----\n`));
    const details = createPrivateKey(key).asymmetricKeyDetails;
    assert.equal(kind === 'RSA' ? details?.modulusLength : details?.namedCurve, kind === 'RSA' ? 2048 : 'prime256v1');
    const file = join(folder, 'csr.pem');
    await writeFile(file, csr);
    const { stdout, stderr } = await run('openssl', ['req', '-in', file, '-noout', '-verify', '-text']);
    assert.match(stdout + stderr, /self-signature verify OK/i);
    assert.match(stdout, new RegExp(`Subject Alternative Name:[^\n]*\n\\s*URI:${URI}\n`));
    assert.match(stdout, /Subject: *\n/);
  });
}

test('only known algorithms are accepted', () => {
  assert.deepEqual([keyKind(''), keyKind('ECDSA')], ['RSA', 'ECDSA']);
  assert.throws(() => keyKind('ED25519'), { code: 'invalid_argument', location: { field: 'ECC_SIGNATURE_ALGORITHM' } });
});
