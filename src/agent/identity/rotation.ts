/**
 * Fetches the workload's secrets from the authority, and renews them. Two independent loops: one for the certificate
 * (with a new key each time; the current one stays until the next is complete), one for the roots, which may change
 * between two certificates and must reach all workloads before a new root signs.
 */
import { backoff } from '../../core/backoff.ts';
import { sleep } from '../../core/clock.ts';
import { CtlError, oneLineOf } from '../../core/errors.ts';
import { parseSpiffeUri } from '../../core/identity.ts';
import { createFailureLog, type Log } from '../../core/log.ts';
import type { WallClock } from '../../core/wall-clock.ts';
import type { SecretSource, WorkloadSecrets } from '../types.ts';
import type { CaClient } from './ca-client.ts';
import { secretsOf, spiffeIdOf } from './certificates.ts';
import type { KeyAndRequest } from './csr.ts';
import type { IdentityCounters } from './metrics.ts';
import { createSecretHolder, type SecretHolder } from './secret-holder.ts';

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
/** Authorities backdate certificates by about this much, ms: they stay valid when the clock is set back by less. */
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

/** When a certificate was received and when it must be renewed, epoch ms. */
interface Certified {
  readonly receivedAt: number;
  readonly next: number;
}

export function createRotation(options: RotationOptions): SecretSource {
  return new Rotation(options);
}

class Rotation implements SecretSource {
  readonly #options: RotationOptions;
  readonly #holder: SecretHolder;
  readonly #stop = new AbortController();
  #running: Promise<unknown> = Promise.resolve();
  #identity: string | undefined;

  constructor(options: RotationOptions) {
    this.#options = options;
    this.#holder = createSecretHolder(options.log);
  }

  current(): WorkloadSecrets | undefined {
    return this.#holder.current();
  }

  missing(): string | undefined {
    return this.#holder.missing();
  }

  onChange(listener: (secrets: WorkloadSecrets) => void): () => void {
    return this.#holder.onChange(listener);
  }

  start(): void {
    if (!this.#stop.signal.aborted) this.#running = Promise.all([this.#rotate(), this.#followRoots()]);
  }

  async close(): Promise<void> {
    this.#stop.abort();
    this.#options.ca.close();
    await this.#running;
  }

  async #rotate(): Promise<void> {
    const { clock, counters, log, random, initialBackoffMs } = this.#options;
    const { signal } = this.#stop;
    const state = createFailureLog(log, 'no new certificate', 'certificates are issued again');
    let failures = 0;
    let expiryLogged = false;
    while (!signal.aborted) {
      if (failures > 0) counters.num_outgoing_retries++;
      try {
        const certified = await this.#renew();
        state.succeeded();
        failures = 0;
        expiryLogged = false;
        log.debug('certificate replaced', { next: new Date(certified.next).toISOString() });
        await this.#untilRenewal(certified);
      } catch (error) {
        if (signal.aborted) return;
        const expiresAt = this.#holder.current()?.certificate.expiresAt;
        const expired = expiresAt !== undefined && expiresAt <= clock.now();
        if (expired && !expiryLogged)
          log.error('the certificate has expired', { at: new Date(expiresAt).toISOString() });
        expiryLogged = expired;
        this.#holder.failed(oneLineOf(error));
        state.failed(oneLineOf(error), expiresAt === undefined ? {} : { expires: new Date(expiresAt).toISOString() });
        failures++;
        await sleep(clock, retryDelay(failures, initialBackoffMs, random), signal);
      }
    }
  }

  /** Requests a certificate. */
  async #renew(): Promise<Certified> {
    const { ca, clock, log, random, newKey, lifetimeSeconds, announced, graceRatio } = this.#options;
    const { key, csr } = await newKey();
    const { chain, roots } = await ca.sign(csr, lifetimeSeconds, this.#holder.current());
    const receivedAt = clock.now();
    const secrets = secretsOf(key, chain, roots, receivedAt);
    if (this.#stop.signal.aborted) return { receivedAt, next: receivedAt };
    const named = spiffeIdOf(secrets);
    checkIdentity(named, announced);
    if (named !== this.#identity) {
      log.info('the workload has a certificate of its identity', { identity: named ?? 'none' });
      warnOfTrustDomain(named, announced?.trustDomain, log);
    }
    this.#identity = named;
    this.#holder.set(secrets);
    return { receivedAt, next: rotationTime(receivedAt, secrets.certificate.expiresAt, graceRatio, random) };
  }

  async #untilRenewal({ receivedAt, next }: Certified): Promise<void> {
    const { clock, checkIntervalMs } = this.#options;
    const { signal } = this.#stop;
    // Also checked in between: the wall clock may have been set, or the machine may have slept. After the clock was set
    // back the certificate is not valid yet for peers with the right time.
    const due = (): boolean => clock.now() >= next || clock.now() < receivedAt - CLOCK_TOLERANCE_MS;
    while (!signal.aborted && !due()) await sleep(clock, Math.min(next - clock.now(), checkIntervalMs), signal);
  }

  async #followRoots(): Promise<void> {
    const { ca, clock, log, random, checkIntervalMs } = this.#options;
    const { signal } = this.#stop;
    const holder = this.#holder;
    const state = createFailureLog(log, 'the trusted roots cannot be fetched', 'the trusted roots are fetched again');
    while (!signal.aborted) {
      await sleep(clock, checkIntervalMs * (1 - GRACE_JITTER * random()), signal);
      const before = holder.current();
      if (signal.aborted || before === undefined) continue;
      try {
        const roots = await ca.trustBundle(before);
        state.succeeded();
        // A certificate that was issued meanwhile came with newer roots.
        if (roots !== undefined && !signal.aborted && holder.current() === before) holder.set({ ...before, roots });
      } catch (error) {
        if (!signal.aborted) state.failed(oneLineOf(error));
      }
    }
  }
}

/**
 * Refuses a certificate of another workload. The control plane would refuse the proxy, and the certificate would prove
 * the wrong identity at each renewal, whatever the token then contains. Without it the token decides.
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
