/** Messages between the main thread and a signing worker: plain data, a closed union. */

export interface Issuer {
  /** PEM, PKCS #8. */
  readonly key: string;
  /** PEM. */
  readonly certificate: string;
  /** When the first certificate of its chain expires, epoch ms: signed certificates expire then at the latest. */
  readonly chainEnd: number;
}

/** `now` is epoch ms. */
export type SignJob =
  | {
      readonly kind: 'workload';
      readonly csr: string;
      readonly uri: string;
      readonly lifetimeSeconds: number;
      readonly now: number;
    }
  | {
      readonly kind: 'server';
      readonly hosts: readonly string[];
      readonly uris: readonly string[];
      readonly lifetimeSeconds: number;
      readonly now: number;
    };

/**
 * `adopt` is applied before the jobs: it has the key for a worker that was just started, or whose issuer was replaced.
 */
export interface SignTask {
  readonly adopt?: Issuer;
  readonly jobs: readonly SignJob[];
}

export type SignResult =
  /** PEM; `key` only for jobs whose key the worker created; `notAfter` is epoch ms. */
  | { readonly kind: 'signed'; readonly certificate: string; readonly key?: string; readonly notAfter: number }
  /** The request is invalid; `message` is one line for the caller. */
  | { readonly kind: 'refused'; readonly message: string }
  | { readonly kind: 'expired' }
  /** The issuer is valid from `notBefore` (epoch ms) on, which is later than `now`: a clock was wrong. */
  | { readonly kind: 'not yet valid'; readonly now: number; readonly notBefore: number }
  | { readonly kind: 'failed'; readonly message: string };

export type SignAnswer =
  /** The worker has no key, because it was restarted. */
  { readonly kind: 'keyless' } | { readonly kind: 'done'; readonly results: readonly SignResult[] };
