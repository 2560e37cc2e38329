/**
 * Secrets in files that a gateway's configuration names, besides the workload's own. They are followed from when Envoy first asks for
 * them: read again and again, as mounts change by swapped links, which watchers miss. Files that cannot be read or do not fit
 * together leave the last good version in force.
 */
import { CtlError } from '../../core/errors.ts';
import { parseFileSecretName } from '../../core/file-secrets.ts';
import { readText } from './cert-files.ts';
import { checkKey, readCertificates } from './certificates.ts';
import { type Clock, sleep } from './clock.ts';
import { type Condition, condition, type Log, reasonOf } from './log.ts';
import { authoritiesSecret, certificateSecret, type SecretResource } from './messages.ts';
import { secretResource } from './secret-table.ts';

/** Far more than a gateway has; each is read every few seconds. */
const MAX_FOLLOWED = 500;
/** Certificates are replaced long before they end, so seconds do not matter. */
const LOOK_MS = 5_000;

export interface FileSecrets {
  /** Begins to follow the files that a name speaks of; other names, and one too many, are passed over. */
  follow(name: string): void;
  /** Those that could be read. */
  current(): Iterable<SecretResource>;
  close(): Promise<void>;
}

/** An Envoy that reconnects asks for the same again: only who is silent for two looks has gone. */
const UNASKED_LOOKS = 2;

interface Followed {
  readonly state: Condition;
  /** Looks since somebody wanted it. */
  unasked: number;
  secret: SecretResource | undefined;
}

/**
 * @param changed called when there is something new to serve, or less
 * @param isWanted whether anybody asks for a name now
 */
export function createFileSecrets(
  clock: Clock,
  log: Log,
  changed: () => void,
  isWanted: (name: string) => boolean,
): FileSecrets {
  const followed = new Map<string, Followed>();
  const stop = new AbortController();
  const { signal } = stop;
  let running: Promise<void> | undefined;

  /** Whether it is another one than before. */
  const look = async (name: string, entry: Followed): Promise<boolean> => {
    try {
      const secret = secretResource(name, await readSecret(name));
      entry.state.good();
      const isNew = secret.version !== entry.secret?.version;
      entry.secret = secret;
      return isNew;
    } catch (error) {
      entry.state.fault(reasonOf(error));
      return false;
    }
  };
  /** Names come and go with Gateways: those of the past must not take the room of new ones. True when one was served. */
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
      if (followed.has(name) || followed.size >= MAX_FOLLOWED || parseFileSecretName(name) === undefined) return;
      const what = `the certificates ${name}`;
      const state = condition(log, `${what} cannot be used`, `${what} are good again`);
      const entry: Followed = { state, unasked: 0, secret: undefined };
      followed.set(name, entry);
      void look(name, entry).then((isNew) => {
        if (isNew && !signal.aborted) changed();
      });
      running ??= lookAtAll();
    },
    current: () => [...followed.values()].flatMap(({ secret }) => secret ?? []),
    async close() {
      stop.abort();
      await running;
    },
  };
}

/** The names come from whoever may write a Gateway: nothing else that stands in a file is handed on, such as a token. */
const REVOCATIONS = /^\s*-----BEGIN X509 CRL-----[A-Za-z0-9+/=\s]+-----END X509 CRL-----/m;

/** The encoded Secret. Rejects with CtlError. */
async function readSecret(name: string): Promise<Uint8Array> {
  const files = parseFileSecretName(name);
  if (files === undefined) throw new TypeError(`${name} names no files`);
  if (files.kind === 'authorities') {
    const [roots, crl] = await Promise.all([
      readText(files.roots),
      files.crl === undefined ? undefined : readText(files.crl),
    ]);
    readCertificates([roots], files.roots);
    if (crl !== undefined && !REVOCATIONS.test(crl)) {
      throw new CtlError('invalid_argument', `no list of revoked certificates in ${files.crl}`);
    }
    return authoritiesSecret(name, roots, crl);
  }
  const [chain, key] = await Promise.all([readText(files.chain), readText(files.key)]);
  const [leaf] = readCertificates([chain], files.chain);
  // Between two writes they do not fit together, and Envoy would refuse them.
  if (leaf !== undefined) checkKey(leaf, key);
  return certificateSecret(name, { chain, key });
}
