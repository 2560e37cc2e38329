/** The certificate authorities that this machine trusts, as its distribution keeps them: one file of PEM. */
import { CtlError } from '../../core/errors.ts';

/** Where OpenSSL, and most programs that use it, are told of another file. */
const VARIABLE = 'SSL_CERT_FILE';

/** As Go's `crypto/x509/root_linux.go` looks for them, which is where other meshes' agents find them. */
const FILES = [
  // Debian, Ubuntu, Gentoo, Arch.
  '/etc/ssl/certs/ca-certificates.crt',
  // Fedora, RHEL 6.
  '/etc/pki/tls/certs/ca-bundle.crt',
  // openSUSE.
  '/etc/ssl/ca-bundle.pem',
  '/etc/pki/tls/cacert.pem',
  // CentOS, RHEL 7 and later.
  '/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem',
  // Alpine.
  '/etc/ssl/cert.pem',
] as const;

export interface SystemAuthorities {
  readonly file: string;
  readonly text: string;
}

/**
 * Rejects with CtlError not_found when no file is there; with what `readText` rejects with when one is there and cannot
 * be read, and for the file that the variable names.
 *
 * @param readText rejects with CtlError not_found for a file that is not there
 */
export async function readSystemAuthorities(
  readText: (file: string) => Promise<string>,
  env: Readonly<Record<string, string | undefined>>,
): Promise<SystemAuthorities> {
  const named = env[VARIABLE];
  if (named) return { file: named, text: await readText(named) };
  for (const file of FILES) {
    try {
      return { file, text: await readText(file) };
    } catch (error) {
      if (!(error instanceof CtlError) || error.code !== 'not_found') throw error;
    }
  }
  const message = `no certificate authorities of the system: expected ${VARIABLE} or one of ${FILES.join(', ')}`;
  throw new CtlError('not_found', message);
}
