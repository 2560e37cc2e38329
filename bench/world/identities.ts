/**
 * Certificates for the benches over TLS: a root, a server certificate for localhost, and one identity for each
 * namespace. Proxies of a real mesh do not share certificates, but a handshake costs the server the same. `openssl`
 * makes them, so that no measured code issues its own certificates.
 */
import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { tempDir } from '../../test/harness/files.ts';
import type { Owner } from '../../test/harness/owner.ts';
import type { ProxyCertificates } from '../client/messages.ts';
import type { ServerTls } from '../server.ts';

const TRUST_DOMAIN = 'cluster.local';
const DAYS = '2';

export interface Identities {
  readonly server: ServerTls;
  /** A certificate for the proxies of each namespace. */
  proxies(namespaces: readonly string[]): Promise<ProxyCertificates>;
}

async function openssl(folder: string, ...args: readonly string[]): Promise<void> {
  await promisify(execFile)('openssl', [...args], { cwd: folder });
}

const P256 = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'] as const;

/** `name.key` and `name.pem` in the folder, signed by the root there. */
async function signed(folder: string, name: string, extensions: readonly string[]): Promise<void> {
  await openssl(folder, 'req', '-new', ...P256, '-subj', '/', '-keyout', `${name}.key`, '-out', `${name}.csr`);
  await writeFile(join(folder, `${name}.ext`), extensions.join('\n'));
  const by = ['-CA', 'root.pem', '-CAkey', 'root.key', '-CAcreateserial', '-days', DAYS];
  await openssl(
    folder,
    ...['x509', '-req', '-in', `${name}.csr`, ...by, '-extfile', `${name}.ext`, '-out', `${name}.pem`],
  );
}

export async function createIdentities(owner: Owner): Promise<Identities> {
  const folder = await tempDir(owner);
  const root = ['-subj', `/O=${TRUST_DOMAIN}`, '-days', DAYS, '-keyout', 'root.key', '-out', 'root.pem'];
  await openssl(folder, 'req', '-x509', ...P256, ...root);
  await signed(folder, 'server', ['subjectAltName=DNS:localhost', 'extendedKeyUsage=serverAuth']);
  const text = (name: string): Promise<string> => readFile(join(folder, name), 'utf8');
  const made = new Set<string>();
  const identity = async (namespace: string): Promise<{ certificate: string; key: string }> => {
    if (!made.has(namespace)) {
      const uri = `spiffe://${TRUST_DOMAIN}/ns/${namespace}/sa/default`;
      await signed(folder, namespace, [`subjectAltName=critical,URI:${uri}`, 'extendedKeyUsage=clientAuth,serverAuth']);
      made.add(namespace);
    }
    return { certificate: await text(`${namespace}.pem`), key: await text(`${namespace}.key`) };
  };
  return {
    server: { certificate: join(folder, 'server.pem'), key: join(folder, 'server.key'), ca: join(folder, 'root.pem') },
    async proxies(namespaces) {
      const identities: Record<string, { certificate: string; key: string }> = {};
      for (const namespace of namespaces) identities[namespace] = await identity(namespace);
      return { ca: await text('root.pem'), identities };
    },
  };
}
