/**
 * Names of secrets whose content stands in files of the proxy's machine, which its agent reads and serves: a file that
 * is missing or broken then costs the connections that need it and no listener, and a replaced one is taken without a
 * new configuration. The names are those that the field's other agents understand.
 */

const KEY_PAIR = 'file-cert:';
const AUTHORITIES = 'file-root:';
const SEPARATOR = '~';
/** Agents take no longer names. */
const MAX_NAME_LENGTH = 1000;

/**
 * In place of a path: the authorities that the machine trusts. Where they are differs between distributions, so that
 * the agent has to find them.
 */
export const SYSTEM_AUTHORITIES = 'system';

/** What a name speaks of. */
export type FileSecret =
  | { readonly kind: 'key pair'; readonly chain: string; readonly key: string }
  | { readonly kind: 'authorities'; readonly roots: string; readonly crl: string | undefined };

/** Undefined for paths that such a name cannot hold. */
export function keyPairFileName(chain: string, key: string): string | undefined {
  return nameOf(KEY_PAIR, [chain, key]);
}

/**
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

/** Undefined for other names. */
export function parseFileSecretName(name: string): FileSecret | undefined {
  const prefix = [KEY_PAIR, AUTHORITIES].find((each) => name.startsWith(each));
  if (prefix === undefined) return undefined;
  const [first = '', second, ...more] = name.slice(prefix.length).split(SEPARATOR);
  if (first === '' || second === '' || more.length > 0) return undefined;
  if (prefix === AUTHORITIES) return { kind: 'authorities', roots: first, crl: second };
  return second === undefined ? undefined : { kind: 'key pair', chain: first, key: second };
}
