/**
 * Certificates that the mesh's authority did not issue, made with openssl: of other trust domains, and of other roots.
 */
import { execFile } from 'node:child_process';
import { chmod, copyFile, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type Owner, tempDir } from '../../harness/index.ts';
import type { IdentityWorld } from './identity-world.ts';

const openssl = (...args: readonly string[]) => promisify(execFile)('openssl', args);

/** Files, PEM. */
export interface CertificateFiles {
  readonly certificate: string;
  readonly key: string;
}

/** Key and certificate of the mesh's own root, which only the authority should have. */
export async function meshRoot(owner: Owner, { caDir }: Pick<IdentityWorld, 'caDir'>): Promise<CertificateFiles> {
  const folder = await tempDir(owner);
  const state = JSON.parse(await readFile(join(caDir, 'ca-state.json'), 'utf8')) as {
    key: string;
    certificate: string;
  };
  const files = { certificate: join(folder, 'root.pem'), key: join(folder, 'root.key') };
  await writeFile(files.key, state.key, { mode: 0o600 });
  await writeFile(files.certificate, state.certificate);
  return files;
}

/** A root that the mesh does not trust. */
export async function foreignRoot(owner: Owner): Promise<CertificateFiles> {
  const folder = await tempDir(owner);
  const files = { certificate: join(folder, 'root.pem'), key: join(folder, 'root.key') };
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', files.key];
  await openssl('req', '-x509', ...key, '-subj', '/O=elsewhere', '-days', '1', '-out', files.certificate);
  await chmod(folder, 0o755);
  return files;
}

/** A certificate with this one name, such as `URI:spiffe://…` or `DNS:…`, signed by a root. */
export async function signedBy(owner: Owner, root: CertificateFiles, name: string): Promise<CertificateFiles> {
  const folder = await tempDir(owner);
  const files = { certificate: join(folder, 'leaf.pem'), key: join(folder, 'leaf.key') };
  const [request, extensions] = [join(folder, 'leaf.csr'), join(folder, 'extensions')];
  const usage = 'keyUsage=critical,digitalSignature\nextendedKeyUsage=clientAuth,serverAuth\n';
  await writeFile(extensions, `subjectAltName=critical,${name}\n${usage}`);
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', files.key];
  await openssl('req', '-new', ...key, '-subj', '/', '-out', request);
  const signer = ['-CA', root.certificate, '-CAkey', root.key, '-set_serial', '4711', '-days', '1'];
  await openssl('x509', '-req', '-in', request, ...signer, '-extfile', extensions, '-out', files.certificate);
  // Proxies run as another user and may have to read them.
  await Promise.all([chmod(folder, 0o755), chmod(files.key, 0o644)]);
  return files;
}

/** A directory with a certificate of this name, its key and the root, in the files of an agent. */
export async function agentFiles(owner: Owner, root: CertificateFiles, name: string): Promise<string> {
  const [{ certificate, key }, directory] = await Promise.all([signedBy(owner, root, name), tempDir(owner)]);
  await copyFile(certificate, join(directory, 'cert-chain.pem'));
  await copyFile(key, join(directory, 'key.pem'));
  await copyFile(root.certificate, join(directory, 'root-cert.pem'));
  return directory;
}
