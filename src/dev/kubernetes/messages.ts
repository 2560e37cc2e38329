/** What the playground's two processes tell each other. */

/** From the process outside, which owns the address that users connect to, to the one inside. */
export interface Start {
  /** Where the API server has to be reachable: the inner process listens here for the outer one. */
  readonly socket: string;
}

/** From the process inside, once everything runs. */
export interface Ready {
  /** PEM of the authority of the API server's certificate. */
  readonly ca: string;
  /** Of the cluster's admin. */
  readonly token: string;
  /** Why no Pods run; undefined when they do. */
  readonly withoutPods: string | undefined;
}
