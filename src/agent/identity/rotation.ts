/**
 * Fetches the workload's secrets from the authority, and renews the certificate and the roots independently: the
 * certificate with a new key each time (the current key stays until the next certificate is complete), the roots
 * because they may change between two certificates, and must reach all workloads before a new root signs.
 */
import { backoff } from '../../core/backoff.ts';
import { CtlError, oneLineOf } from '../../core/errors.ts';
import { parseSpiffeUri } from '../../core/identity.ts';
import { createFailureLog, type FailureLog, type Log } from '../../core/log.ts';
import { type Loaded, Refresh } from '../../core/scheduling/refresh.ts';
import type { WallClock } from '../../core/wall-clock.ts';
import type { SecretSource, WorkloadSecrets } from '../types.ts';
import type { CaClient } from './ca-client.ts';
import { secretsOf, spiffeIdOf } from './certificates.ts';
import type { KeyAndRequest } from './csr.ts';
import type { IdentityCounters } from './metrics.ts';
import { createSecretHolder, type SecretHolder, secretSource } from './secret-holder.ts';

/** The identity that the proxy announces to the control plane; an undefined account or trust domain accepts any. */
export interface AnnouncedIdentity {
  readonly namespace: string;
  readonly serviceAccount: string | undefined;
  readonly trustDomain?: string | undefined;
}

export interface RotationOptions {
  readonly ca: Pick<CaClient, 'sign' | 'trustBundle' | 'close'>;
  readonly newKey: () => Promise<KeyAndRequest>;
  readonly announced?: AnnouncedIdentity;
  /** The lifetime to request. */
  readonly lifetimeSeconds: number;
  /** The part of a certificate's life that is left when it is renewed (SECRET_GRACE_PERIOD_RATIO). */
  readonly graceRatio: number;
  readonly checkIntervalMs: number;
  readonly initialBackoffMs: number;
  readonly clock: WallClock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  readonly counters: IdentityCounters;
  readonly log: Log;
}

/**
 * The grace period varies by this part in both directions, so that workloads that started together do not renew
 * together.
 */
const GRACE_JITTER = 0.1;
/**
 * A certificate is used for at least this part of its life, for any grace period, so that the authority is not called
 * continuously.
 */
const MIN_USE = 0.05;
/** A certificate is used for at least this time, however short its life is, ms. */
const MIN_USE_MS = 500;
/**
 * Authorities backdate certificates by about this much, ms, so certificates stay valid when the clock is set back by
 * less.
 */
const CLOCK_TOLERANCE_MS = 60_000;

/**
 * When a certificate is renewed, epoch ms. Its life counts from `receivedAt`: authorities backdate certificates, by
 * most of the life of a short-lived one.
 */
export function rotationTime(receivedAt: number, expiresAt: number, graceRatio: number, random: () => number): number {
  const life = Math.max(0, expiresAt - receivedAt);
  const grace = life * graceRatio * (1 - GRACE_JITTER + 2 * GRACE_JITTER * random());
  return receivedAt + Math.max(life - grace, life * MIN_USE, MIN_USE_MS);
}

/** The default of INITIAL_BACKOFF_MSEC: short, because Envoy waits for the first certificate. */
const DEFAULT_INITIAL_BACKOFF_MS = 500;
/** The maximum delay, ms: how soon a control plane that is available again is noticed. */
export const MAX_BACKOFF_MS = 30_000;
/** A random delay in the upper half, so that not all agents call at once. */
const BACKOFF_JITTER = 0.5;

/**
 * The delay before a renewal is tried again, ms.
 *
 * @param initialMs the first delay; not positive: half a second
 */
export function retryDelay(failures: number, initialMs: number, random: () => number): number {
  const first = initialMs > 0 ? initialMs : DEFAULT_INITIAL_BACKOFF_MS;
  return backoff(failures, first, MAX_BACKOFF_MS, random, BACKOFF_JITTER);
}

export function createRotation(options: RotationOptions): SecretSource {
  const holder = createSecretHolder(options.log);
  return secretSource(holder, new Rotation(options, holder));
}

class Rotation {
  readonly #options: RotationOptions;
  readonly #holder: SecretHolder;
  readonly #certificate: Refresh<WorkloadSecrets>;
  readonly #roots: Refresh<void>;
  readonly #state: FailureLog;
  #failures = 0;
  #expiryLogged = false;
  #identity: string | undefined;

  constructor(options: RotationOptions, holder: SecretHolder) {
    const { clock, log, random, checkIntervalMs, initialBackoffMs } = options;
    this.#options = options;
    this.#holder = holder;
    this.#state = createFailureLog(log, 'no new certificate', 'certificates can be issued again');
    this.#certificate = new Refresh({
      load: () => this.#renew(),
      onValue: (secrets) => this.#renewed(secrets),
      onFailure: (error) => this.#failed(error),
      clock,
      retryMs: (failures) => retryDelay(failures, initialBackoffMs, random),
      setBackMs: CLOCK_TOLERANCE_MS,
    });
    const state = createFailureLog(
      log,
      'the trusted roots cannot be fetched',
      'the trusted roots can be fetched again',
    );
    this.#roots = new Refresh({
      load: async (signal) => {
        if (await this.#fetchRoots(signal)) state.succeeded();
        return { value: undefined, refreshMs: checkIntervalMs };
      },
      onFailure: (error) => state.failed(oneLineOf(error)),
      clock,
      random,
      retryMs: () => checkIntervalMs,
    });
  }

  start(): void {
    void this.#certificate.start();
    // There are no roots to replace yet, so the roots are fetched after the first interval.
    void this.#roots.start();
  }

  async close(): Promise<void> {
    const closed = [this.#certificate.close(), this.#roots.close()];
    this.#options.ca.close();
    await Promise.all(closed);
  }

  /** Requests a certificate. */
  async #renew(): Promise<Loaded<WorkloadSecrets>> {
    const { ca, clock, counters, log, random, newKey, lifetimeSeconds, announced, graceRatio } = this.#options;
    if (this.#failures > 0) counters.num_outgoing_retries++;
    const { key, csr } = await newKey();
    const { chain, roots } = await ca.sign(csr, lifetimeSeconds, this.#holder.current());
    const receivedAt = clock.now();
    const secrets = secretsOf(key, chain, roots, receivedAt);
    checkIdentity(spiffeIdOf(secrets), announced);
    const next = rotationTime(receivedAt, secrets.certificate.expiresAt, graceRatio, random);
    log.debug('certificate received', { next: new Date(next).toISOString() });
    return { value: secrets, refreshMs: next - receivedAt };
  }

  #renewed(secrets: WorkloadSecrets): void {
    const { log, announced } = this.#options;
    const named = spiffeIdOf(secrets);
    if (named !== this.#identity) {
      log.info('the workload has a certificate of its identity', { identity: named ?? 'none' });
      warnOfTrustDomain(named, announced?.trustDomain, log);
    }
    this.#identity = named;
    this.#holder.set(secrets);
    this.#state.succeeded();
    this.#failures = 0;
    this.#expiryLogged = false;
  }

  #failed(error: CtlError): void {
    const { clock, log } = this.#options;
    this.#failures++;
    const expiresAt = this.#holder.current()?.certificate.expiresAt;
    const expired = expiresAt !== undefined && expiresAt <= clock.now();
    if (expired && !this.#expiryLogged)
      log.error('the certificate has expired', { at: new Date(expiresAt).toISOString() });
    this.#expiryLogged = expired;
    this.#holder.failed(oneLineOf(error));
    this.#state.failed(oneLineOf(error), expiresAt === undefined ? {} : { expires: new Date(expiresAt).toISOString() });
  }

  /** False while there is no certificate, because only its authority has the roots. */
  async #fetchRoots(signal: AbortSignal): Promise<boolean> {
    const before = this.#holder.current();
    if (before === undefined) return false;
    const roots = await this.#options.ca.trustBundle(before);
    // A certificate that was issued meanwhile came with newer roots.
    if (roots !== undefined && !signal.aborted && this.#holder.current() === before)
      this.#holder.set({ ...before, roots });
    return true;
  }
}

/**
 * Refuses a certificate of another workload. The control plane would refuse the proxy, and the certificate would prove
 * the wrong identity at each renewal, whatever the token then contains. Without a certificate, the token determines the
 * identity.
 */
export function checkIdentity(named: string | undefined, announced: AnnouncedIdentity | undefined): void {
  const certified = named === undefined ? undefined : parseSpiffeUri(named);
  if (certified === undefined || announced === undefined) return;
  const { namespace, serviceAccount = certified.serviceAccount } = announced;
  if (certified.namespace === namespace && certified.serviceAccount === serviceAccount) return;
  const who = `service account ${serviceAccount} of namespace ${namespace}`;
  throw new CtlError('permission_denied', `the authority knows this workload as ${named}, but it is ${who}`);
}

/**
 * Warns about an alias of the trust domain, or a foreign authority; meshd's authority refuses a workload whose trust
 * domain is neither its own nor an alias of it.
 */
export function warnOfTrustDomain(named: string | undefined, set: string | undefined, log: Log): void {
  const certified = named === undefined ? undefined : parseSpiffeUri(named)?.trustDomain;
  if (certified === undefined || set === undefined || certified === set) return;
  log.warn(`the certificate is of trust domain ${certified}, but the agent is configured with ${set}`);
}

/** Throws CtlError invalid_argument for a ratio that is not between 0 and 1. */
export function checkGraceRatio(ratio: number): void {
  if (ratio >= 0 && ratio <= 1) return;
  throw new CtlError('invalid_argument', `${ratio} is not between 0 and 1`, { field: 'SECRET_GRACE_PERIOD_RATIO' });
}
