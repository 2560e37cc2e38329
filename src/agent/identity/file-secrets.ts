/**
 * Serves secrets from files that Envoy's configuration names: certificates of gateways, or of TLS that a proxy
 * originates. A file is followed from Envoy's first request for it. It is read periodically, because mounts change by
 * swapped links, which watchers miss. Files that are unreadable or do not fit together leave the last good version in
 * force.
 */
import { sleep } from '../../core/clock.ts';
import { CtlError, InternalError, oneLineOf } from '../../core/errors.ts';
import { createFailureLog, type FailureLog, type Log } from '../../core/log.ts';
import { parseFileSecretName, SYSTEM_AUTHORITIES } from '../../core/tls/file-secret-names.ts';
import { pemBlocks } from '../../core/tls/pem.ts';
import type { WallClock } from '../../core/wall-clock.ts';
import { readText } from './cert-files.ts';
import { checkKey, readCertificates } from './certificates.ts';
import type { SecretResource } from './sds-protocol.ts';
import { authoritiesSecret, certificateSecret } from './secret-table.ts';
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
  return new FollowedFiles(clock, log, changed, isWanted, env);
}

class FollowedFiles implements FileSecrets {
  readonly #clock: WallClock;
  readonly #log: Log;
  readonly #changed: () => void;
  readonly #isWanted: (name: string) => boolean;
  readonly #env: Readonly<Record<string, string | undefined>>;
  readonly #followed = new Map<string, Followed>();
  readonly #limitLog: FailureLog;
  readonly #stop = new AbortController();
  #running: Promise<void> | undefined;

  constructor(
    clock: WallClock,
    log: Log,
    changed: () => void,
    isWanted: (name: string) => boolean,
    env: Readonly<Record<string, string | undefined>>,
  ) {
    this.#clock = clock;
    this.#log = log;
    this.#changed = changed;
    this.#isWanted = isWanted;
    this.#env = env;
    this.#limitLog = createFailureLog(
      log,
      'not all certificates in files are followed',
      'certificates in files are followed again',
    );
  }

  follow(name: string): boolean {
    if (this.#followed.has(name)) return true;
    if (parseFileSecretName(name) === undefined) return false;
    if (this.#followed.size >= MAX_FOLLOWED) {
      this.#limitLog.failed(`at most ${MAX_FOLLOWED} are followed`, { notFollowed: name });
      return false;
    }
    this.#limitLog.succeeded();
    const what = `the certificates ${name}`;
    const state = createFailureLog(this.#log, `${what} cannot be used`, `${what} are usable again`);
    const entry: Followed = { state, unwantedChecks: 0, text: '', secret: undefined };
    this.#followed.set(name, entry);
    void this.#check(name, entry).then((isNew) => {
      if (isNew && !this.#stop.signal.aborted) this.#changed();
    });
    this.#running ??= this.#checkAll();
    return true;
  }

  current(): Iterable<SecretResource> {
    return [...this.#followed.values()].flatMap(({ secret }) => secret ?? []);
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async #checkAll(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      await sleep(this.#clock, CHECK_MS, signal);
      if (signal.aborted) return;
      const isLess = this.#dropUnwanted();
      const isNew = await Promise.all([...this.#followed].map(([name, entry]) => this.#check(name, entry)));
      if ((isLess || isNew.includes(true)) && !signal.aborted) this.#changed();
    }
  }

  /** Reads a secret. Returns true when it has changed. */
  async #check(name: string, entry: Followed): Promise<boolean> {
    try {
      const { text, encode } = await readSecret(name, this.#env);
      if (entry.secret !== undefined && entry.text === text) {
        entry.state.succeeded();
        return false;
      }
      const secret = encode();
      entry.state.succeeded();
      entry.text = text;
      const isNew = secret.version !== entry.secret?.version;
      entry.secret = secret;
      return isNew;
    } catch (error) {
      entry.state.failed(oneLineOf(error));
      return false;
    }
  }

  /** Drops names that are no longer used, which would otherwise displace new ones. True when one of them was served. */
  #dropUnwanted(): boolean {
    let served = false;
    for (const [name, entry] of this.#followed) {
      entry.unwantedChecks = this.#isWanted(name) ? 0 : entry.unwantedChecks + 1;
      if (entry.unwantedChecks < MAX_UNWANTED_CHECKS) continue;
      this.#followed.delete(name);
      served ||= entry.secret !== undefined;
    }
    return served;
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
