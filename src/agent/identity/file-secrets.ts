/**
 * Serves secrets from files that Envoy's configuration names: certificates of gateways, or of TLS that a proxy
 * originates. A file is followed from Envoy's first request for it. It is read periodically, because mounts change by
 * swapped links, which watchers miss. Files that are unreadable or do not fit together leave the last good version in
 * force.
 */
import { CtlError, InternalError, oneLineOf } from '../../core/errors.ts';
import { createFailureLog, type Log } from '../../core/log.ts';
import { parseFileSecretName, SYSTEM_AUTHORITIES } from '../../core/tls/file-secret-names.ts';
import { pemBlocks } from '../../core/tls/pem.ts';
import type { WallClock } from '../../core/wall-clock.ts';
import { readText } from './cert-files.ts';
import { checkKey, readCertificates } from './certificates.ts';
import { type RequestedName, RequestedNames } from './requested-names.ts';
import type { SecretResource } from './sds-protocol.ts';
import { authoritiesSecret, certificateSecret } from './secret-table.ts';
import { readSystemAuthorities } from './system-authorities.ts';

/** Far more than a gateway needs; each is read every few seconds. */
const MAX_FOLLOWED = 500;

export interface FileSecrets {
  /** Starts to follow the files of a name. False for other names, and when there are too many. */
  follow(name: string): boolean;
  /** The secrets that could be read. */
  current(): Iterable<SecretResource>;
  close(): Promise<void>;
}

interface Followed extends RequestedName {
  /** The content of the files of `resource`: unchanged files are not parsed again. */
  text: string;
}

/**
 * @param changed is called when a secret was added, replaced or removed
 * @param isWanted whether any stream is subscribed to a name
 * @param env may name the file of the system's authorities
 */
export function createFileSecrets(
  clock: WallClock,
  log: Log,
  changed: () => void,
  isWanted: (name: string) => boolean,
  env: Readonly<Record<string, string | undefined>> = process.env,
): FileSecrets {
  let isClosed = false;
  const names = new RequestedNames<Followed>({
    max: MAX_FOLLOWED,
    what: 'certificates in files',
    clock,
    log,
    entryOf(name) {
      if (parseFileSecretName(name) === undefined) return undefined;
      const what = `the certificates ${name}`;
      const state = createFailureLog(log, `${what} cannot be used`, `${what} are usable again`);
      return { state, text: '', resource: undefined };
    },
    added: (name, entry) =>
      void readAgain(name, entry, env).then((isNew) => {
        if (isNew && !isClosed) changed();
      }),
    async check(entries) {
      const isNew = await Promise.all(entries.map(([name, entry]) => readAgain(name, entry, env)));
      return isNew.includes(true);
    },
    changed,
    isWanted,
  });
  return {
    follow: (name) => names.follow(name),
    current: () => names.current(),
    close() {
      isClosed = true;
      return names.close();
    },
  };
}

/** Reads a secret. Returns true when it has changed. */
async function readAgain(
  name: string,
  entry: Followed,
  env: Readonly<Record<string, string | undefined>>,
): Promise<boolean> {
  try {
    const { text, encode } = await readSecret(name, env);
    const { resource } = entry;
    const next = resource !== undefined && entry.text === text ? resource : encode();
    entry.state.succeeded();
    entry.text = text;
    entry.resource = next;
    return next.version !== resource?.version;
  } catch (error) {
    entry.state.failed(oneLineOf(error));
    return false;
  }
}

/**
 * Names come from authors of Gateways and DestinationRules, so no other content of a file, such as a token, is served.
 */
const REVOCATIONS = 'X509 CRL';

/** The contents of a secret's files. */
interface SecretFiles {
  readonly text: string;
  /** The encoded Secret. Throws CtlError when the files are invalid, or do not fit together. */
  encode(): SecretResource;
}

/** Rejects with CtlError when a file cannot be read. */
async function readSecret(name: string, env: Readonly<Record<string, string | undefined>>): Promise<SecretFiles> {
  const files = parseFileSecretName(name);
  if (files === undefined) throw new InternalError(`${name} names no files`);
  if (files.kind === 'authorities') return readAuthorities(name, files.roots, files.crl, env);
  const [chain, key] = await Promise.all([readText(files.chain), readText(files.key)]);
  return {
    text: `${chain}\0${key}`,
    encode() {
      const [leaf] = readCertificates([chain], files.chain);
      // Between two writes they do not fit together; Envoy would refuse them.
      if (leaf !== undefined) checkKey(leaf, key);
      return certificateSecret(name, { chain, key });
    },
  };
}

async function readAuthorities(
  name: string,
  roots: string,
  revocations: string | undefined,
  env: Readonly<Record<string, string | undefined>>,
): Promise<SecretFiles> {
  const [authorities, crl] = await Promise.all([
    roots === SYSTEM_AUTHORITIES
      ? readSystemAuthorities(readText, env)
      : readText(roots).then((text) => ({ file: roots, text })),
    revocations === undefined ? undefined : readText(revocations),
  ]);
  const { file, text } = authorities;
  return {
    text: `${text}\0${crl ?? ''}`,
    encode() {
      readCertificates([text], file);
      if (crl !== undefined && pemBlocks(crl, REVOCATIONS).length === 0) {
        throw new CtlError('invalid_argument', `no list of revoked certificates in ${revocations}`);
      }
      return authoritiesSecret(name, text, crl);
    },
  };
}
