/**
 * Names of secrets whose content is in files on the proxy's machine. Its agent reads the files and serves the secrets.
 * A missing or broken file then affects the connections that need it, not the whole listener, and a replaced file is
 * used without new configuration. Istio's agents support the same names.
 */

const KEY_PAIR = 'file-cert:';
const AUTHORITIES = 'file-root:';
const SEPARATOR = '~';
/** Agents refuse longer names. */
const MAX_NAME_LENGTH = 1000;

/**
 * In place of a path: the certificate authorities that the machine trusts. Their file differs between distributions, so
 * the agent looks for it.
 */
export const SYSTEM_AUTHORITIES = 'system';

/** The files that a name refers to. */
export type FileSecret =
  | { readonly kind: 'key pair'; readonly chain: string; readonly key: string }
  | { readonly kind: 'authorities'; readonly roots: string; readonly crl: string | undefined };

/** The name for a certificate chain and its key. Undefined for paths that do not fit into a name. */
export function keyPairFileName(chain: string, key: string): string | undefined {
  return nameOf(KEY_PAIR, [chain, key]);
}

/**
 * The name for trusted authorities. Undefined for paths that do not fit into a name.
 *
 * @param roots path, or {@link SYSTEM_AUTHORITIES}
 * @param crl path of a list of revoked certificates
 */
export function authoritiesFileName(roots: string, crl: string | undefined): string | undefined {
  return nameOf(AUTHORITIES, crl ? [roots, crl] : [roots]);
}

function nameOf(prefix: string, paths: readonly string[]): string | undefined {
  const name = prefix + paths.join(SEPARATOR);
  const fits = new TextEncoder().encode(name).length <= MAX_NAME_LENGTH;
  return fits && paths.every((path) => path !== '' && !path.includes(SEPARATOR)) ? name : undefined;
}

/** The files of a name; undefined for names of other secrets. */
export function parseFileSecretName(name: string): FileSecret | undefined {
  const prefix = [KEY_PAIR, AUTHORITIES].find((each) => name.startsWith(each));
  if (prefix === undefined) return undefined;
  const [first = '', second, ...more] = name.slice(prefix.length).split(SEPARATOR);
  if (first === '' || second === '' || more.length > 0) return undefined;
  if (prefix === AUTHORITIES) return { kind: 'authorities', roots: first, crl: second };
  return second === undefined ? undefined : { kind: 'key pair', chain: first, key: second };
}
