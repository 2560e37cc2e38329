/**
 * Serves secrets from files that Envoy's configuration names: certificates of gateways, or of TLS that a proxy
 * originates. A file is followed from Envoy's first request for it. It is read periodically, because mounts change by
 * swapped links, which watchers miss. Files that are unreadable or do not fit together leave the last good version in
 * force.
 */
import { sleep } from '../../core/clock.ts';
import { CtlError, oneLineOf } from '../../core/errors.ts';
import { parseFileSecretName, SYSTEM_AUTHORITIES } from '../../core/file-secret-names.ts';
import { createFailureLog, type FailureLog, type Log } from '../../core/log.ts';
import { pemBlocks } from '../../core/pem.ts';
import type { WallClock } from '../../core/wall-clock.ts';
import { readText } from './cert-files.ts';
import { checkKey, readCertificates } from './certificates.ts';
import { authoritiesSecret, certificateSecret, type SecretResource } from './messages.ts';
import { secretResource } from './secret-table.ts';
import { readSystemAuthorities } from './system-authorities.ts';

/** Far more than a gateway needs; each is read every few seconds. */
const MAX_FOLLOWED = 500;
/** The interval of reads: certificates are replaced long before they expire, so a few seconds do not matter. */
const CHECK_MS = 5_000;

export interface FileSecrets {
  /** Starts to follow the files of a name. False for other names, and when there are too many. */
  follow(name: string): boolean;
  /** The secrets that could be read. */
  current(): Iterable<SecretResource>;
  close(): Promise<void>;
}

/**
 * A secret is dropped after this many checks without a request for it: an Envoy that reconnects requests it again
 * before.
 */
const MAX_UNWANTED_CHECKS = 2;

interface Followed {
  readonly state: FailureLog;
  /** Checks since a stream was last subscribed to it. */
  unwantedChecks: number;
  /** The content of the files of `secret`: unchanged files are not parsed again. */
  text: string;
  secret: SecretResource | undefined;
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
  const followed = new Map<string, Followed>();
  const stop = new AbortController();
  const { signal } = stop;
  let running: Promise<void> | undefined;

  /** Reads a secret. True when it has changed. */
  const check = async (name: string, entry: Followed): Promise<boolean> => {
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
  /** Drops names that are no longer used, which would otherwise displace new ones. True when one of them was served. */
  const dropUnwanted = (): boolean => {
    let served = false;
    for (const [name, entry] of followed) {
      entry.unwantedChecks = isWanted(name) ? 0 : entry.unwantedChecks + 1;
      if (entry.unwantedChecks < MAX_UNWANTED_CHECKS) continue;
      followed.delete(name);
      served ||= entry.secret !== undefined;
    }
    return served;
  };
  const checkAll = async (): Promise<void> => {
    while (!signal.aborted) {
      await sleep(clock, CHECK_MS, signal);
      if (signal.aborted) return;
      const isLess = dropUnwanted();
      const isNew = await Promise.all([...followed].map(([name, entry]) => check(name, entry)));
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
      const state = createFailureLog(log, `${what} cannot be used`, `${what} are usable again`);
      const entry: Followed = { state, unwantedChecks: 0, text: '', secret: undefined };
      followed.set(name, entry);
      void check(name, entry).then((isNew) => {
        if (isNew && !signal.aborted) changed();
      });
      running ??= checkAll();
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
 * Names come from authors of Gateways and DestinationRules, so no other content of a file, such as a token, is served.
 */
const REVOCATIONS = 'X509 CRL';

/** The texts of a secret's files. */
interface SecretFiles {
  readonly text: string;
  /** The encoded Secret. Throws CtlError when the files are invalid, or do not fit together. */
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
