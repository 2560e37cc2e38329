/** A control plane whose workloads get their certificates from the tests' authority, which records credentials. */
import { generateKeyPairSync } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { startTestCa, TEST_SERVER_NAME } from '../../../src/agent/identity/testing/test-ca.ts';
import { freePort, type Owner, startDiscovery, tempDir } from '../../harness/index.ts';

const LIFE_MS = 3_600_000;

/** An authority, and a control plane with a certificate of it that requires one of its callers. */
export async function securedControlPlane(
  owner: Owner,
  { name = TEST_SERVER_NAME, flags = [] as string[], configDir = '' } = {},
) {
  const ca = await startTestCa();
  owner.after(() => ca.close());
  const folder = await tempDir(owner);
  const file = async (name: string, text: string): Promise<string> => {
    await writeFile(join(folder, name), text);
    return join(folder, name);
  };
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const roots = await file('root-cert.pem', ca.root.pem);
  const port = await freePort();
  const discovery = await startDiscovery(owner, {
    configDir: configDir === '' ? await tempDir(owner) : configDir,
    flags: [
      ['--secureGRPCAddr', `127.0.0.1:${port}`],
      ['--tlsCertFile', await file('cert.pem', ca.root.issue(publicKey, [name], LIFE_MS))],
      ['--tlsKeyFile', await file('key.pem', privateKey.export({ type: 'pkcs8', format: 'pem' }).toString())],
      ['--caCertFile', roots],
      flags,
    ].flat(),
  });
  const env = {
    CA_ADDR: `127.0.0.1:${ca.port}`,
    CA_ROOT_CA: roots,
    CA_TOKEN_FILE: await file('token', 'token'),
    SKIP_PARSE_TOKEN: 'true',
    SERVICE_ACCOUNT: 'web',
  };
  return { ca, discovery, env, file, address: `127.0.0.1:${port}` };
}
