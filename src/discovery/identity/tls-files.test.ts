import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { CtlError } from '../../core/errors.ts';
import { openTlsFiles } from './tls-files.ts';

/** Certificates for these tests only. */
const CERTS = fileURLToPath(new URL('../../../test/golden-harness/certs/', import.meta.url));

let dir = '';
const at = (name: string): string => join(dir, name);

before(async () => {
  dir = await mkdtemp(join(tmpdir(), 'tls-files-'));
  for (const name of ['tls.crt', 'tls.key', 'ca.crt']) await copyFile(join(CERTS, name), at(name));
  await writeFile(at('text.pem'), 'not a certificate');
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  await writeFile(at('other.key'), privateKey.export({ type: 'pkcs8', format: 'pem' }));
});
after(() => rm(dir, { recursive: true, force: true }));

async function refusal(tlsCertFile: string, tlsKeyFile: string, caCertFile = ''): Promise<string> {
  try {
    await openTlsFiles({ tlsCertFile, tlsKeyFile, caCertFile });
  } catch (error) {
    assert.ok(error instanceof CtlError);
    return error.oneLine();
  }
  return 'taken';
}

describe('files of the secure gRPC address', () => {
  it('are undefined when no flag names one', async () => {
    assert.equal(await openTlsFiles({ tlsCertFile: '', tlsKeyFile: '', caCertFile: '' }), undefined);
  });

  it('are accepted when the key belongs to the certificate', async () => {
    assert.equal(await refusal(at('tls.crt'), at('tls.key')), 'taken');
    assert.equal(await refusal(at('tls.crt'), at('tls.key'), at('ca.crt')), 'taken');
  });

  it('are refused with one line that names the flag', async () => {
    assert.match(await refusal(at('tls.crt'), ''), /^--tlsKeyFile: required/);
    assert.match(await refusal('', '', at('ca.crt')), /^--tlsCertFile: required/);
    assert.match(await refusal(at('nowhere'), at('tls.key')), /^--tlsCertFile: .*nowhere cannot be read \(ENOENT\)/);
    assert.match(await refusal(at('text.pem'), at('tls.key')), /^--tlsCertFile: .*is not a certificate/);
    assert.match(await refusal(at('tls.crt'), at('text.pem')), /^--tlsKeyFile: .*is not a private key/);
    assert.match(await refusal(at('tls.crt'), at('other.key')), /^--tlsKeyFile: .*is not the key of the certificate/);
    assert.match(await refusal(at('tls.crt'), at('tls.key'), at('text.pem')), /^--caCertFile: .*is not a cert/);
  });
});
