/**
 * The workload's secrets, got from the authority and replaced in time. Two loops that nothing but their own clock
 * wakes: one for the certificate (a new key each time; what there is stays until the next is complete), one for the
 * roots, which may change between two certificates and must reach everybody before a new root signs.
 */
import { backoff } from '../../core/backoff.ts';
import { sleep } from '../../core/clock.ts';
import { CtlError, oneLineOf } from '../../core/errors.ts';
import { parseSpiffeUri } from '../../core/identity.ts';
import { createFailureLog, type Log } from '../../core/log.ts';
import type { WallClock } from '../../core/wall-clock.ts';
import type { SecretSource } from '../types.ts';
import type { CaClient } from './ca-client.ts';
import { secretsOf, spiffeIdOf } from './certificates.ts';
import type { KeyAndRequest } from './csr.ts';
import type { IdentityCounters } from './metrics.ts';
import { createSecretHolder } from './secret-holder.ts';

export interface RotationOptions {
  readonly ca: Pick<CaClient, 'sign' | 'trustBundle' | 'close'>;
  readonly newKey: () => Promise<KeyAndRequest>;
  /**
   * What the proxy says of itself to the control plane; an undefined account or trust domain is whatever is certified.
   */
  readonly claimed?: {
    readonly namespace: string;
    readonly serviceAccount: string | undefined;
    readonly trustDomain?: string | undefined;
  };
  /** The lifetime to request. */
  readonly lifetimeSeconds: number;
  /** Part of a certificate's life that is left when it is replaced (SECRET_GRACE_PERIOD_RATIO). */
  readonly graceRatio: number;
  readonly checkIntervalMs: number;
  readonly initialBackoffMs: number;
  readonly clock: WallClock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  readonly counters: IdentityCounters;
  readonly log: Log;
}

/** Grace is jittered by this part of itself to both sides, so that workloads started together do not renew together. */
const GRACE_JITTER = 0.1;
/**
 * However much grace is asked for, a certificate is used for this part of its life: authorities are not asked without
 * end.
 */
const LEAST_USE = 0.05;
/** Certificates of less life than this are not replaced faster; ms. */
const LEAST_USE_MS = 500;
/** Authorities date certificates back by about this much, ms: a clock that was set back by less leaves them valid. */
const CLOCK_TOLERANCE_MS = 60_000;

/**
 * When a certificate had at `receivedAt` is replaced, epoch ms. Its life counts from when it was had: authorities date
 * certificates back, and of a short-lived one that would be most of its life.
 */
export function rotationTime(receivedAt: number, expiresAt: number, graceRatio: number, random: () => number): number {
  const life = Math.max(0, expiresAt - receivedAt);
  const grace = life * graceRatio * (1 - GRACE_JITTER + 2 * GRACE_JITTER * random());
  return receivedAt + Math.max(life - grace, life * LEAST_USE, LEAST_USE_MS);
}

/** Without INITIAL_BACKOFF_MSEC; Envoy waits for the first certificate, so the first retry is soon. */
const DEFAULT_INITIAL_BACKOFF_MS = 500;
/** A control plane that is available again is noticed within this time; ms. */
export const MAX_BACKOFF_MS = 30_000;
/** Each delay is somewhere in its upper half, so that not all agents ask at once. */
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
  const { ca, clock, counters, log, random } = options;
  const holder = createSecretHolder(log);
  const stop = new AbortController();
  const { signal } = stop;
  let running: Promise<unknown> = Promise.resolve();
  let identity: string | undefined;

  /** Gives when the certificate was received and when it is to be replaced, epoch ms. */
  const renew = async (): Promise<{ readonly receivedAt: number; readonly next: number }> => {
    const { key, csr } = await options.newKey();
    const before = holder.current();
    const { chain, roots } = await ca.sign(csr, options.lifetimeSeconds, before);
    const receivedAt = clock.now();
    const secrets = secretsOf(key, chain, roots, receivedAt);
    if (signal.aborted) return { receivedAt, next: receivedAt };
    const named = spiffeIdOf(secrets);
    checkClaim(named, options.claimed);
    if (named !== identity) {
      log.info('the identity is certified', { identity: named ?? 'none' });
      warnOfTrustDomain(named, options.claimed?.trustDomain, log);
    }
    identity = named;
    holder.set(secrets);
    return { receivedAt, next: rotationTime(receivedAt, secrets.certificate.expiresAt, options.graceRatio, random) };
  };

  const rotate = async (): Promise<void> => {
    let failures = 0;
    const state = createFailureLog(log, 'no new certificate', 'certificates are had again');
    let saidExpired = false;
    while (!signal.aborted) {
      if (failures > 0) counters.num_outgoing_retries++;
      try {
        const { receivedAt, next } = await renew();
        state.succeeded();
        failures = 0;
        saidExpired = false;
        log.debug('certificate replaced', { next: new Date(next).toISOString() });
        // Looked at again at each check, too: the wall clock may have been set, or the machine have slept. One that was
        // set back makes it a certificate of the future, which peers with the right time refuse.
        const due = (): boolean => clock.now() >= next || clock.now() < receivedAt - CLOCK_TOLERANCE_MS;
        while (!signal.aborted && !due()) {
          await sleep(clock, Math.min(next - clock.now(), options.checkIntervalMs), signal);
        }
      } catch (error) {
        if (signal.aborted) return;
        const expiresAt = holder.current()?.certificate.expiresAt;
        const expired = expiresAt !== undefined && expiresAt <= clock.now();
        if (expired && !saidExpired)
          log.error('the certificate has expired', { at: new Date(expiresAt).toISOString() });
        saidExpired = expired;
        state.failed(oneLineOf(error), expiresAt === undefined ? {} : { expires: new Date(expiresAt).toISOString() });
        failures++;
        await sleep(clock, retryDelay(failures, options.initialBackoffMs, random), signal);
      }
    }
  };

  const followRoots = async (): Promise<void> => {
    const state = createFailureLog(log, 'the trusted roots cannot be asked for', 'the trusted roots are known again');
    while (!signal.aborted) {
      await sleep(clock, options.checkIntervalMs * (1 - GRACE_JITTER * random()), signal);
      const before = holder.current();
      if (signal.aborted || before === undefined) continue;
      try {
        const roots = await ca.trustBundle(before);
        state.succeeded();
        // A certificate that came meanwhile brought its roots along, and they are newer.
        if (roots !== undefined && !signal.aborted && holder.current() === before) holder.set({ ...before, roots });
      } catch (error) {
        if (!signal.aborted) state.failed(oneLineOf(error));
      }
    }
  };

  return {
    current: holder.current,
    onChange: holder.onChange,
    start() {
      if (!signal.aborted) running = Promise.all([rotate(), followRoots()]);
    },
    async close() {
      stop.abort();
      ca.close();
      await running;
    },
  };
}

/**
 * With a certificate of another workload the control plane would refuse the proxy, and the certificate would prove that
 * other identity at each renewal, whatever the token says by then. Without one the token is what counts.
 */
function checkClaim(named: string | undefined, claimed: RotationOptions['claimed']): void {
  const certified = named === undefined ? undefined : parseSpiffeUri(named);
  if (certified === undefined || claimed === undefined) return;
  const { namespace, serviceAccount = certified.serviceAccount } = claimed;
  if (certified.namespace === namespace && certified.serviceAccount === serviceAccount) return;
  const who = `service account ${serviceAccount} of namespace ${namespace}`;
  throw new CtlError('permission_denied', `the authority knows this workload as ${named}, but it is ${who}`);
}

/**
 * Meshd's authority refuses a workload that is set to a trust domain which is neither its own nor an alias of it; what
 * comes here is an alias, or of an authority of another make.
 */
function warnOfTrustDomain(named: string | undefined, set: string | undefined, log: Log): void {
  const certified = named === undefined ? undefined : parseSpiffeUri(named)?.trustDomain;
  if (certified === undefined || set === undefined || certified === set) return;
  log.warn(`the certificate is of trust domain ${certified}, but the agent is set to ${set}`);
}

/** Throws CtlError invalid_argument for a share that is none. */
export function checkGraceRatio(ratio: number): void {
  if (ratio >= 0 && ratio <= 1) return;
  throw new CtlError('invalid_argument', `${ratio} is not between 0 and 1`, { field: 'SECRET_GRACE_PERIOD_RATIO' });
}
