/** Reads the certificate authorities that this machine trusts: one PEM file, whose path depends on the distribution. */
import { CtlError } from '../../core/errors.ts';

/** Names another file, for OpenSSL and most programs that use it. */
const VARIABLE = 'SSL_CERT_FILE';

/** The files of Go's `crypto/x509/root_linux.go`, which agents of other meshes use. */
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
 * Reads the file that the variable names, else the first known file that exists. Rejects with CtlError not_found when
 * no file exists; with the error of `readText` when the file is unreadable.
 *
 * @param readText rejects with CtlError not_found for a missing file
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
  const message = `found no CA certificates of the system: expected ${VARIABLE} or one of ${FILES.join(', ')}`;
  throw new CtlError('not_found', message);
}
