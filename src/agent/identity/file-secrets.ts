/**
 * Secrets in files that the configuration of a gateway, or of TLS that a proxy originates, names besides the workload's
 * own. They are followed from when Envoy first asks for them: read again and again, as mounts change by swapped links,
 * which watchers miss. Files that cannot be read or do not fit together leave the last good version in force.
 */
import { sleep } from '../../core/clock.ts';
import { CtlError, oneLineOf } from '../../core/errors.ts';
import { parseFileSecretName, SYSTEM_AUTHORITIES } from '../../core/file-secrets.ts';
import { createFailureLog, type FailureLog, type Log } from '../../core/log.ts';
import { pemBlocks } from '../../core/pem.ts';
import type { WallClock } from '../../core/wall-clock.ts';
import { readText } from './cert-files.ts';
import { checkKey, readCertificates } from './certificates.ts';
import { authoritiesSecret, certificateSecret, type SecretResource } from './messages.ts';
import { secretResource } from './secret-table.ts';
import { readSystemAuthorities } from './system-authorities.ts';

/** Far more than a gateway has; each is read every few seconds. */
const MAX_FOLLOWED = 500;
/** Certificates are replaced long before they end, so seconds do not matter. */
const LOOK_MS = 5_000;

export interface FileSecrets {
  /** Begins to follow the files that a name speaks of. False for other names, and one too many. */
  follow(name: string): boolean;
  /** Those that could be read. */
  current(): Iterable<SecretResource>;
  close(): Promise<void>;
}

/** An Envoy that reconnects asks for the same again: only who is silent for two looks has gone. */
const UNASKED_LOOKS = 2;

interface Followed {
  readonly state: FailureLog;
  /** Looks since somebody wanted it. */
  unasked: number;
  /** What `secret` was made of: files that are the same are not parsed again. */
  text: string;
  secret: SecretResource | undefined;
}

/**
 * @param changed called when there is something new to serve, or less
 * @param isWanted whether anybody asks for a name now
 * @param env may name the file of the system's authorities
 */
export function createFileSecrets(
  clock: WallClock,
  log: Log,
  changed: () => void,
  isWanted: (name: string) => boolean,
  env: Readonly<Record<string, string | undefined>> = process.env,
): FileSecrets {
  const followed = new Map<string, Followed>();
  const stop = new AbortController();
  const { signal } = stop;
  let running: Promise<void> | undefined;

  /** Whether it is another one than before. */
  const look = async (name: string, entry: Followed): Promise<boolean> => {
    try {
      const { text, encode } = await readSecret(name, env);
      if (entry.secret !== undefined && entry.text === text) {
        entry.state.succeeded();
        return false;
      }
      const secret = secretResource(name, encode());
      entry.state.succeeded();
      entry.text = text;
      const isNew = secret.version !== entry.secret?.version;
      entry.secret = secret;
      return isNew;
    } catch (error) {
      entry.state.failed(oneLineOf(error));
      return false;
    }
  };
  const isFull = createFailureLog(
    log,
    'not all certificates in files are followed',
    'certificates in files are followed again',
  );
  /**
   * Names come and go with Gateways: those of the past must not take the room of new ones. True when one was served.
   */
  const forgetUnasked = (): boolean => {
    let served = false;
    for (const [name, entry] of followed) {
      entry.unasked = isWanted(name) ? 0 : entry.unasked + 1;
      if (entry.unasked < UNASKED_LOOKS) continue;
      followed.delete(name);
      served ||= entry.secret !== undefined;
    }
    return served;
  };
  const lookAtAll = async (): Promise<void> => {
    while (!signal.aborted) {
      await sleep(clock, LOOK_MS, signal);
      if (signal.aborted) return;
      const isLess = forgetUnasked();
      const isNew = await Promise.all([...followed].map(([name, entry]) => look(name, entry)));
      if ((isLess || isNew.includes(true)) && !signal.aborted) changed();
    }
  };

  return {
    follow(name) {
      if (followed.has(name)) return true;
      if (parseFileSecretName(name) === undefined) return false;
      if (followed.size >= MAX_FOLLOWED) {
        isFull.failed(`${MAX_FOLLOWED} at most are followed`, { notFollowed: name });
        return false;
      }
      isFull.succeeded();
      const what = `the certificates ${name}`;
      const state = createFailureLog(log, `${what} cannot be used`, `${what} are good again`);
      const entry: Followed = { state, unasked: 0, text: '', secret: undefined };
      followed.set(name, entry);
      void look(name, entry).then((isNew) => {
        if (isNew && !signal.aborted) changed();
      });
      running ??= lookAtAll();
      return true;
    },
    current: () => [...followed.values()].flatMap(({ secret }) => secret ?? []),
    async close() {
      stop.abort();
      await running;
    },
  };
}

/**
 * The names come from authors of Gateways and DestinationRules: no other content of a file is served, such as a token.
 */
const REVOCATIONS = 'X509 CRL';

/** The content of a secret's files. */
interface SecretFiles {
  readonly text: string;
  /** The encoded Secret. Throws CtlError when the files are not what they should be, or do not fit together. */
  encode(): Uint8Array;
}

/** Rejects with CtlError when a file cannot be read. */
async function readSecret(name: string, env: Readonly<Record<string, string | undefined>>): Promise<SecretFiles> {
  const files = parseFileSecretName(name);
  if (files === undefined) throw new TypeError(`${name} names no files`);
  if (files.kind === 'authorities') return readAuthorities(name, files.roots, files.crl, env);
  const [chain, key] = await Promise.all([readText(files.chain), readText(files.key)]);
  return {
    text: `${chain}\0${key}`,
    encode() {
      const [leaf] = readCertificates([chain], files.chain);
      // Between two writes they do not fit together, and Envoy would refuse them.
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
