/** Messages between the two processes of the playground. */

/** From the outer process, which owns the ports that users connect to, to the inner one. */
export interface Start {
  /** Where the inner process puts the Unix sockets through which its servers are reached. */
  readonly folder: string;
}

/** From the inner process, once everything runs. */
export interface Ready {
  /** Certificate of the authority of the API server, PEM. */
  readonly ca: string;
  /** Of the cluster's admin. */
  readonly token: string;
  /** Unix socket of each server. */
  readonly sockets: {
    /** The API server. */
    readonly api: string;
    /** The HTTP port of ctl-discovery, with its debug pages. */
    readonly debug: string;
    /** The gateway in front of the Pods; undefined without Pods. */
    readonly gateway: string | undefined;
  };
  /** Why no Pods run; undefined when they do. */
  readonly withoutPods: string | undefined;
}
