/**
 * The mesh's certificate authority: a source of the root (self-signed or plugged in), and the pool that signs with its
 * key.
 *
 *   root source ──key──▶ signing pool, or in process ──▶ certificates
 *        └──roots──▶ trust bundle, listeners, expiry
 */
import { randomBytes } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { backoff } from '../../core/backoff.ts';
import { sleep } from '../../core/clock.ts';
import { CtlError, oneLineOf } from '../../core/errors.ts';
import { spiffeUri } from '../../core/identity.ts';
import { createFailureLog } from '../../core/log.ts';
import { type WallClock, wallClock } from '../../core/wall-clock.ts';
import { workerUrl } from '../../paths.ts';
import type { Authority, AuthorityStore, ServerCertificate, SigningRequest } from '../types.ts';
import { MAX_CSR_CHARS } from './csr.ts';
import type { DirectoryLock } from './directory-lock.ts';
import { isPlugged } from './plugged-files.ts';
import { openPlugged } from './plugged-source.ts';
import type { OpenedSource, RootEvents, RootSet, SigningMaterial } from './root-source.ts';
import { createRoot } from './self-signed-root.ts';
import { openSelfSigned, type SelfSignedOptions } from './self-signed-source.ts';
import { createSigner } from './signer.ts';
import { createSigningPool, errorOf, issuerOf, type Signed, type SigningPool, unreadableKey } from './signing-pool.ts';
import { createDirectoryStore, lockStore } from './store-directory.ts';

/** Settings from the environment (`discoveryCaEnv`). */
export interface AuthoritySettings {
  readonly selfSignedCaLifetimeSeconds: number;
  readonly selfSignedCaRsaBits: number;
  readonly rootCheckIntervalMs: number;
  readonly rootGracePercentile: number;
  readonly rootCheckJitter: boolean;
  readonly defaultWorkloadCertLifetimeSeconds: number;
  readonly maxWorkloadCertLifetimeSeconds: number;
  readonly rootCaDir: string;
  readonly selfSignedCaDir: string;
}

export interface AuthorityObserver {
  /** A certificate request was unreadable or not acceptable. */
  csrRefused(error: CtlError): void;
  /** A certificate could not be made although the request is valid, or its requested lifetime is too long. */
  signingFailed(error: CtlError): void;
}

export interface AuthorityLog {
  info(message: string): void;
  error(message: string): void;
}

export interface AuthorityOptions {
  readonly settings: AuthoritySettings;
  readonly trustDomain: string;
  readonly log: AuthorityLog;
  /** For the steps of the rotation of a self-signed root; by default `log`. */
  readonly rotationLog?: AuthorityLog;
  readonly observer?: AuthorityObserver;
  /** Stores the self-signed root; by default the directory `selfSignedCaDir`. */
  readonly store?: AuthorityStore;
  /**
   * Takes part in the election of the program that replaces the root of a shared store, and calls `lead` whenever this
   * program is elected. Required with a shared store.
   */
  readonly elect?: (lead: (signal: AbortSignal) => void) => { close(): Promise<void> };
  /** Aborts the attempts to open a shared store. */
  readonly signal?: AbortSignal;
  readonly clock?: WallClock;
  /** From 0 to 1. */
  readonly random?: () => number;
  /**
   * Number of signing threads; the default depends on the machine. With 0, the main thread signs: for authorities that
   * are seldom used.
   */
  readonly threads?: number;
}

/** Limits of a root's RSA key: smaller keys are weak, with larger ones a signature takes tens of milliseconds. */
const MIN_RSA_BITS = 2048;
const MAX_RSA_BITS = 8192;

/** The characters of a DNS name or address of a server certificate. */
const HOST = /^[A-Za-z0-9*._:-]{1,253}$/;

/** Pause between attempts to open a shared store, ms. */
const OPEN_BASE_MS = 500;
const OPEN_MAX_MS = 10_000;

/**
 * Opens the authority. Rejects with CtlError that names the file or variable when its root cannot be used: an authority
 * with a new root would cut off every workload. With a shared store it waits until the root can be used.
 */
export async function createAuthority(options: AuthorityOptions): Promise<Authority> {
  checkSettings(options.settings);
  const { log } = options;
  const listeners = new Set<() => void>();
  let pool: SigningPool | undefined;
  let lastProblem = '';
  const events: RootEvents = {
    changed(_roots: RootSet, material?: SigningMaterial) {
      lastProblem = '';
      if (material !== undefined) pool?.use(material);
      for (const listener of listeners) listener();
    },
    problem(error) {
      const line = error instanceof CtlError ? error.oneLine() : String(error);
      if (line !== lastProblem)
        log.error(`certificate authority: ${line}; the current root certificate stays in force`);
      lastProblem = line;
    },
    recovered() {
      if (lastProblem !== '') log.info('certificate authority: its stored state can be read again');
      lastProblem = '';
    },
  };
  const { source, material } = await openSource(options, events);
  if (options.threads !== 0) {
    pool = createSigningPool({
      workerFile: fileURLToPath(workerUrl('sign')),
      threads: options.threads,
      material,
      reload: () => source.material(),
      onCrash: (error) => log.error(`certificate authority: a signing worker has ended: ${String(error)}`),
    });
  }
  const requests = createRequests(options, pool ?? createInProcessSigner(() => source.material()));
  return {
    ...requests,
    trustBundle: () => source.roots().bundle,
    onChange(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    expiry: () => source.roots().ends,
    async close() {
      listeners.clear();
      await source.close();
      await pool?.close();
    },
  };
}

/**
 * Opens the plugged-in root if there is one, else the self-signed one. Decided once: if the key is missing later, this
 * is a failure, and does not switch to the other root.
 */
async function openSource(options: AuthorityOptions, events: RootEvents): Promise<OpenedSource> {
  const { settings, trustDomain, clock = wallClock, random = Math.random } = options;
  const { selfSignedCaRsaBits: rsaBits, selfSignedCaLifetimeSeconds: lifetimeSeconds } = settings;
  const log = (message: string): void => options.log.info(`certificate authority: ${message}`);
  if (await isPlugged(settings.rootCaDir)) {
    const opened = await openPlugged({ directory: settings.rootCaDir, clock, events, log });
    log(`signs with the key of ${settings.rootCaDir}`);
    return opened;
  }
  const selfSigned: SelfSignedOptions = {
    store: options.store ?? createDirectoryStore(settings.selfSignedCaDir),
    newRoot: (now) => createRoot({ trustDomain, rsaBits, lifetimeSeconds, now, randomBytes }),
    rotation: { intervalMs: settings.rootCheckIntervalMs, gracePercentile: settings.rootGracePercentile },
    jitter: settings.rootCheckJitter,
    clock,
    random,
    events,
    log,
    rotated: (message) => (options.rotationLog ?? options.log).info(`certificate authority: ${message}`),
  };
  if (options.store?.shared !== undefined) return openShared(options, selfSigned);
  const lock = options.store === undefined ? await lockStore(settings.selfSignedCaDir) : undefined;
  const opening = openSelfSigned(selfSigned);
  return lock === undefined ? opening : locked(opening, lock);
}

/**
 * Opens the root of a shared store, and takes part in the election of the program that replaces it. If the store cannot
 * be used, this is retried: a restart of the program would not help.
 */
async function openShared(
  { settings, log, clock = wallClock, random = Math.random, elect, signal }: AuthorityOptions,
  selfSigned: SelfSignedOptions,
): Promise<OpenedSource> {
  const toInfo = (message: string): void => log.info(message);
  const toError = (message: string): void => log.error(message);
  const earlier = () => createDirectoryStore(settings.selfSignedCaDir).load();
  const failures = createFailureLog(
    { debug: () => {}, info: toInfo, warn: toError, error: toError },
    'certificate authority: not ready, because its root certificate cannot be used',
    'certificate authority: its root certificate can be used',
  );
  for (let attempt = 1; ; attempt++) {
    try {
      const { source, material } = await openSelfSigned({ ...selfSigned, earlier });
      failures.succeeded();
      const election = elect?.((term) => source.rotate(term));
      const close = async (): Promise<void> => {
        await election?.close();
        await source.close();
      };
      return { source: { roots: () => source.roots(), material: () => source.material(), close }, material };
    } catch (error) {
      if (signal?.aborted === true) throw error;
      failures.failed(oneLineOf(error));
      await sleep(clock, backoff(attempt, OPEN_BASE_MS, OPEN_MAX_MS, random), signal ?? new AbortController().signal);
    }
  }
}

/** Holds the lock as long as the source is open. */
async function locked(opening: Promise<OpenedSource>, lock: DirectoryLock): Promise<OpenedSource> {
  try {
    const { source, material } = await opening;
    const close = async (): Promise<void> => {
      await source.close();
      await lock.release();
    };
    return { source: { roots: () => source.roots(), material: () => source.material(), close }, material };
  } catch (error) {
    await lock.release();
    throw error;
  }
}

function checkSettings(settings: AuthoritySettings): void {
  const {
    selfSignedCaRsaBits: bits,
    rootGracePercentile: percentile,
    defaultWorkloadCertLifetimeSeconds,
    maxWorkloadCertLifetimeSeconds,
  } = settings;
  const refuse = (field: string, message: string): never => {
    throw new CtlError('invalid_argument', message, { field });
  };
  if (bits < MIN_RSA_BITS || bits > MAX_RSA_BITS)
    refuse('CA_SELF_SIGNED_CA_RSA_KEY_SIZE', `must be from ${MIN_RSA_BITS} to ${MAX_RSA_BITS}`);
  if (percentile < 0 || percentile > 100)
    refuse('CA_SELF_SIGNED_ROOT_CERT_GRACE_PERIOD_PERCENTILE', 'must be from 0 to 100');
  if (settings.selfSignedCaLifetimeSeconds <= 0) refuse('CA_SELF_SIGNED_CA_CERT_TTL', 'must be positive');
  if (maxWorkloadCertLifetimeSeconds <= 0) refuse('MAX_WORKLOAD_CERT_TTL', 'must be positive');
  if (defaultWorkloadCertLifetimeSeconds <= 0) refuse('DEFAULT_WORKLOAD_CERT_TTL', 'must be positive');
  if (defaultWorkloadCertLifetimeSeconds > maxWorkloadCertLifetimeSeconds)
    refuse('DEFAULT_WORKLOAD_CERT_TTL', 'must not be more than MAX_WORKLOAD_CERT_TTL');
}

function createRequests(
  options: AuthorityOptions,
  pool: Pick<SigningPool, 'sign'>,
): Pick<Authority, 'sign' | 'serverCertificate'> {
  const { settings, observer, clock = wallClock } = options;
  const { defaultWorkloadCertLifetimeSeconds, maxWorkloadCertLifetimeSeconds } = settings;

  /** A valid request for too long a lifetime is counted with those that could not be signed. */
  const lifetimeOf = (lifetimeSeconds: number): number => {
    try {
      return workloadLifetime(lifetimeSeconds, defaultWorkloadCertLifetimeSeconds, maxWorkloadCertLifetimeSeconds);
    } catch (error) {
      if (error instanceof CtlError) observer?.signingFailed(error);
      throw error;
    }
  };

  const observed = async (work: () => Promise<Signed>): Promise<Signed> => {
    try {
      return await work();
    } catch (error) {
      if (error instanceof CtlError && error.code === 'invalid_argument') observer?.csrRefused(error);
      else if (error instanceof CtlError) observer?.signingFailed(error);
      throw error;
    }
  };

  return {
    async sign({ csr, identity, lifetimeSeconds }: SigningRequest) {
      const uri = spiffeUri(identity);
      const lifetime = lifetimeOf(lifetimeSeconds);
      const { certificate, path } = await observed(() => {
        // Checked before it is queued: queued requests must be small.
        if (csr.length <= MAX_CSR_CHARS)
          return pool.sign({ kind: 'workload', csr, uri, lifetimeSeconds: lifetime, now: clock.now() });
        const message = `the certificate request is longer than ${MAX_CSR_CHARS} characters`;
        return Promise.reject(new CtlError('invalid_argument', message));
      });
      return [certificate, ...path];
    },

    async serverCertificate(hosts, lifetimeSeconds, identity): Promise<ServerCertificate> {
      const wrong = hosts.find((host) => !HOST.test(host));
      if (hosts.length === 0 || wrong !== undefined)
        throw new CtlError('invalid_argument', `${JSON.stringify(wrong ?? '')} is not a DNS name for a certificate`);
      const lifetime = lifetimeSeconds > 0 ? lifetimeSeconds : defaultWorkloadCertLifetimeSeconds;
      const uris = identity === undefined ? [] : [spiffeUri(identity)];
      const job = { kind: 'server', hosts, uris, lifetimeSeconds: lifetime, now: clock.now() } as const;
      const { certificate, key = '', path, notAfter } = await observed(() => pool.sign(job));
      return { chain: [certificate, ...path.slice(0, -1)].join(''), key, expiresAt: notAfter };
    },
  };
}

/** Throws CtlError invalid_argument for a lifetime over the maximum. */
function workloadLifetime(asked: number, byDefault: number, maximum: number): number {
  if (!(asked > 0)) return byDefault;
  if (asked <= maximum) return asked;
  const [requested, longest] = [Math.floor(asked), Math.floor(maximum)];
  const limit = `at most ${longest} s are allowed (MAX_WORKLOAD_CERT_TTL)`;
  const message = `a lifetime of ${requested} s was requested; ${limit}`;
  throw new CtlError('invalid_argument', message);
}

/**
 * Signs on the main thread, for an authority that signs a few times a day, for the control plane itself: that saves a
 * worker thread and the 0.15 CPU s of its start. The key is loaded for each signature and not kept.
 *
 * @param load reads the key from its store
 */
function createInProcessSigner(load: () => Promise<SigningMaterial>): Pick<SigningPool, 'sign'> {
  return {
    async sign(job) {
      const material = await load().catch((error: unknown) => {
        throw unreadableKey(error);
      });
      const answer = createSigner(randomBytes).run({ adopt: issuerOf(material), jobs: [job] });
      const result = answer.kind === 'done' ? answer.results[0] : undefined;
      if (result?.kind !== 'signed') throw errorOf(result);
      return { ...result, path: material.path };
    },
  };
}
