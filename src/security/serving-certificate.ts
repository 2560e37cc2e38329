/**
 * The certificate of the control plane's own secured address, issued by the mesh CA. It is made at the start, and
 * renewed before it expires and when the authority's root changes. A failed renewal is retried until it succeeds; the
 * current certificate stays in use meanwhile.
 */
import { backoff } from '../core/backoff.ts';
import type { Timer } from '../core/clock.ts';
import { type CtlError, toCtlError } from '../core/errors.ts';
import { CLOCK_CHECK_MS, type WallClock } from '../core/wall-clock.ts';
import { BACKDATE_MS } from './authority/signer.ts';
import type { Authority, ServerCertificate } from './types.ts';

export interface ServingCertificateOptions {
  readonly authority: Pick<Authority, 'serverCertificate' | 'onChange'>;
  readonly dnsNames: readonly string[];
  readonly lifetimeSeconds: number;
  readonly clock: WallClock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  readonly onCertificate: (certificate: ServerCertificate) => void;
  readonly onProblem: (error: CtlError) => void;
}

/** The part of its remaining life after which a certificate is renewed, and how far replicas deviate from it. */
const RENEW_AT = 0.5;
const SPREAD = 0.1;

const FIRST_RETRY_MS = 1000;
const MAX_RETRY_MS = 60_000;

export interface ServingCertificate {
  readonly first: ServerCertificate;
  close(): void;
}

/** Makes the first certificate, and follows it. Rejects when the first cannot be made. */
export async function followServingCertificate(options: ServingCertificateOptions): Promise<ServingCertificate> {
  const { authority, dnsNames, lifetimeSeconds, clock, random, onCertificate, onProblem } = options;
  let timer: Timer | undefined;
  let closed = false;
  let failures = 0;
  /** The number of the latest attempt: the result of an earlier one that completes later is not used. */
  let attempt = 0;

  const waitForRenewal = ({ expiresAt }: ServerCertificate): void => {
    const madeAt = clock.now();
    const part = RENEW_AT + SPREAD * (2 * random() - 1);
    const renewAt = madeAt + Math.max(FIRST_RETRY_MS, (expiresAt - madeAt) * part);
    const check = (): void => {
      const now = clock.now();
      // After the clock was set back, the certificate is not valid yet for clients with the right time.
      const notValidYet = now < madeAt - BACKDATE_MS;
      if (now >= renewAt || notValidYet) void renew();
      else timer = clock.setTimer(Math.min(renewAt - now, CLOCK_CHECK_MS), check);
    };
    check();
  };

  const renew = async (): Promise<void> => {
    timer?.cancel();
    const mine = ++attempt;
    try {
      const certificate = await authority.serverCertificate(dnsNames, lifetimeSeconds);
      if (closed || mine !== attempt) return;
      failures = 0;
      onCertificate(certificate);
      waitForRenewal(certificate);
    } catch (error) {
      if (closed || mine !== attempt) return;
      onProblem(toCtlError(error));
      failures++;
      timer = clock.setTimer(
        backoff(failures, FIRST_RETRY_MS, MAX_RETRY_MS, () => 0),
        () => void renew(),
      );
    }
  };

  const first = await authority.serverCertificate(dnsNames, lifetimeSeconds);
  waitForRenewal(first);
  const stop = authority.onChange(() => void renew());
  return {
    first,
    close: () => {
      closed = true;
      timer?.cancel();
      stop();
    },
  };
}
