/**
 * Who is who in the demo: the authority of its ctl-discovery and a local issuer of tokens, both with keys of their own
 * that are made for one run and go with it.
 */
import { chmod, chown, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { issueToken } from '../../src/security/index.ts';
import { type Owner, tempDir } from '../../test/harness/index.ts';

export interface DemoIdentity {
  /** Environment of ctl-discovery. */
  readonly discoveryEnv: Readonly<Record<string, string>>;
  /**
   * Environment of an agent with this service account of the namespace `demo`, and of Envoy's user when that is another
   * one.
   */
  agentEnv(account: string, uid?: number): Promise<Readonly<Record<string, string>>>;
}

const NAMESPACE = 'demo';
/** The audience of tokens that the authority expects by default (AUDIENCE). */
const AUDIENCE = 'mesh-ca';
/** The first certificate is had with the token, later ones with the certificate: a token outlives the start by far. */
const TOKEN_TTL_MS = 3_600_000;

export async function createIdentity(owner: Owner): Promise<DemoIdentity> {
  const folder = await tempDir(owner);
  // An agent with a user of its own passes through to its token and to the root certificate, and can list nothing.
  await chmod(folder, 0o711);
  const [caDir, issuerDir] = [join(folder, 'ca'), join(folder, 'issuer')];
  await mkdir(caDir, { mode: 0o711 });
  return {
    discoveryEnv: {
      SELF_SIGNED_CA_DIR: caDir,
      CTL_STATE_DIR: join(folder, 'state'),
      // The demo's own root, whatever lies in the directory that it is started in.
      ROOT_CA_DIR: join(folder, 'none'),
      LOCAL_TOKEN_ISSUER_DIR: issuerDir,
    },
    async agentEnv(account, uid) {
      const identity = { namespace: NAMESPACE, serviceAccount: account };
      const terms = { audience: AUDIENCE, lifetimeSeconds: TOKEN_TTL_MS / 1000, now: Date.now() };
      const token = await issueToken({ directory: issuerDir, identity, ...terms });
      const file = join(folder, `token-${account}`);
      await writeFile(file, token, { mode: 0o600 });
      if (uid !== undefined) await chown(file, uid, uid);
      return { SERVICE_ACCOUNT: account, CA_TOKEN_FILE: file, CA_ROOT_CA: join(caDir, 'root-cert.pem') };
    },
  };
}

/** The identity of a service account in the demo, as certificates and X-Forwarded-Client-Cert name it. */
export function identityOf(account: string): string {
  return `spiffe://cluster.local/ns/${NAMESPACE}/sa/${account}`;
}
