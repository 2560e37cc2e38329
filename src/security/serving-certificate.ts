/**
 * The certificate of the control plane's own secure gRPC address, issued by the mesh CA. It is issued at startup, and
 * renewed before it expires and when the authority's root changes. A failed renewal is retried until it succeeds; the
 * current certificate stays in use meanwhile.
 */
import type { CtlError } from '../core/errors.ts';
import type { Identity } from '../core/identity.ts';
import { type Loaded, Refresh, retryUpTo } from '../core/scheduling/refresh.ts';
import type { WallClock } from '../core/wall-clock.ts';
import { BACKDATE_MS } from './authority/signer.ts';
import type { Authority, ServerCertificate } from './types.ts';

export interface ServingCertificateOptions {
  readonly authority: Pick<Authority, 'serverCertificate' | 'onChange'>;
  readonly dnsNames: readonly string[];
  /** That of the control plane; absent: the certificate has DNS names alone. */
  readonly identity?: Identity | undefined;
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

/** A certificate is used for at least this time, however short its life is, ms. */
const MIN_USE_MS = 1000;
const MAX_RETRY_MS = 60_000;

export interface ServingCertificate {
  readonly first: ServerCertificate;
  close(): void;
}

/** Makes the first certificate, and follows it. Rejects when the first cannot be made. */
export async function followServingCertificate(options: ServingCertificateOptions): Promise<ServingCertificate> {
  const { authority, dnsNames, identity, lifetimeSeconds, clock, random, onCertificate, onProblem } = options;
  const load = async (): Promise<Loaded<ServerCertificate>> => {
    const value = await authority.serverCertificate(dnsNames, lifetimeSeconds, identity);
    const part = RENEW_AT + SPREAD * (2 * random() - 1);
    return { value, refreshMs: Math.max(MIN_USE_MS, (value.expiresAt - clock.now()) * part) };
  };
  const first = await load();
  const refresh = new Refresh({
    load,
    onValue: onCertificate,
    onFailure: onProblem,
    clock,
    retryMs: retryUpTo(MAX_RETRY_MS),
    setBackMs: BACKDATE_MS,
  });
  refresh.startWith(first);
  const stop = authority.onChange(() => void refresh.start());
  return {
    first: first.value,
    close: () => {
      stop();
      void refresh.close();
    },
  };
}
