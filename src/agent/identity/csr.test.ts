/** Keys and certificate requests, compared with openssl. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createPrivateKey } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { keyKind, newKeyAndRequest } from './csr.ts';

const run = promisify(execFile);
const URI = 'spiffe://cluster.local/ns/default/sa/web';

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
