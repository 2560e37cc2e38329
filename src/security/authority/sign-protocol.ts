/** Messages between the main thread and a signing worker: plain data, a closed union. */

/** The key that signs, and its certificate. */
export interface Issuer {
  /** PEM, PKCS #8. */
  readonly key: string;
  /** PEM. */
  readonly certificate: string;
  /** When the first certificate of its chain ends, epoch ms: nothing signed outlives it. */
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
      readonly lifetimeSeconds: number;
      readonly now: number;
    };

/** `adopt` comes before the jobs: a worker that has just been started, or whose issuer was replaced, is told. */
export interface SignTask {
  readonly adopt?: Issuer;
  readonly jobs: readonly SignJob[];
}

export type SignResult =
  /** PEM; `key` only for jobs whose key was made here; `notAfter` is epoch ms. */
  | { readonly kind: 'signed'; readonly certificate: string; readonly key?: string; readonly notAfter: number }
  /** The caller's fault, in one line for the caller. */
  | { readonly kind: 'refused'; readonly message: string }
  /** The issuer has ended. */
  | { readonly kind: 'expired' }
  /** The issuer is valid from `notBefore` (epoch ms) on, which is later than `now`: one of the clocks was wrong. */
  | { readonly kind: 'not yet valid'; readonly now: number; readonly notBefore: number }
  | { readonly kind: 'failed'; readonly message: string };

export type SignAnswer =
  /** The worker has no key: it was started anew. */
  { readonly kind: 'keyless' } | { readonly kind: 'done'; readonly results: readonly SignResult[] };
