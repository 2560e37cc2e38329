/**
 * The agent's identity module with the authority of the real ctl-discovery: a token for the first certificate, then
 * each certificate for the next one.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { startAgentIdentity } from '../../src/agent/identity/index.ts';
import type { WorkloadSecrets } from '../../src/agent/types.ts';
import { issueToken } from '../../src/security/local-issuer.ts';
import { defaultAgentSettings } from '../../src/settings/index.ts';
import { discoveryPorts, eventually, startDiscovery, tempDir } from '../harness/index.ts';

const IDENTITY = { trustDomain: 'cluster.local', namespace: 'shop', serviceAccount: 'web' };

/**
 * Certificates are renewed after 1.5 to 4.4 s, long before they expire. A new key can take seconds on a crowded
 * machine, and with an expired certificate the agent would need its token again.
 */
const RENEWED_EARLY = { secretLifetimeSeconds: 30, secretGracePeriodRatio: 0.95 };

for (const [what, settings] of [
  ['RSA', {}],
  ['ECDSA', { eccSignatureAlgorithm: 'ECDSA', pkcs8Key: true }],
] as const) {
  test(`${what}: a token gets a certificate, which renews itself and is written to OUTPUT_CERTS`, async (t) => {
    const [caDir, issuer, folder] = [await tempDir(t), join(await tempDir(t), 'issuer'), await tempDir(t)];
    const ports = await discoveryPorts();
    await startDiscovery(t, {
      configDir: await tempDir(t),
      ports,
      env: { SELF_SIGNED_CA_DIR: caDir, LOCAL_TOKEN_ISSUER_DIR: issuer },
    });
    const token = join(folder, 'token');
    const bearer = {
      directory: issuer,
      identity: IDENTITY,
      audience: 'mesh-ca',
      lifetimeSeconds: 600,
      now: Date.now(),
    };
    await writeFile(token, await issueToken(bearer));
    const output = join(folder, 'out');
    const identity = await startAgentIdentity({
      identity: IDENTITY,
      caServer: { host: '127.0.0.1', port: ports.secure ?? 0, serverName: 'meshd.mesh-system.svc', tls: true },
      trustDomainSet: true,
      sdsPath: join(folder, 'SDS'),
      settings: defaultAgentSettings({
        caRootsFile: join(caDir, 'root-cert.pem'),
        caTokenFile: token,
        ...RENEWED_EARLY,
        outputCerts: output,
        ...settings,
      }),
    });
    // Not in a hook of the test: hooks run in order, and the folder that the agent writes to would be removed first.
    try {
      const seen: WorkloadSecrets[] = [];
      identity.secrets.onChange((secrets) => {
        seen.push(secrets);
        // From here on only the certificate proves the workload's identity.
        void rm(token, { force: true });
      });
      await eventually(() => assert.ok(seen.length >= 3), { timeoutMs: 30_000, what: 'two renewals' });
      const metrics = new Map(identity.metrics().map(({ name, value }) => [name, value]));
      assert.equal(metrics.get('num_failed_outgoing_requests'), 0);
      assert.equal(new Set(seen.map(({ certificate }) => certificate.key)).size, seen.length);
      for (const { certificate } of seen) {
        assert.equal(
          new X509Certificate(certificate.chain).subjectAltName,
          'URI:spiffe://cluster.local/ns/shop/sa/web',
        );
      }
      const files = ['-CAfile', join(output, 'root-cert.pem'), join(output, 'cert-chain.pem')];
      await eventually(async () => {
        const { stdout } = await promisify(execFile)('openssl', ['verify', ...files]);
        assert.match(stdout, /OK\n$/);
      });
    } finally {
      await identity.close();
    }
  });
}
