/**
 * How an API server is reached and who this program is there: read from a kubeconfig file, or from a Pod's service
 * account.
 */

/** TLS settings of one connection. Read again for each, so that renewed files take effect. */
export interface TlsMaterial {
  /** PEM; undefined: the certificate authorities that Node trusts. */
  readonly ca?: string;
  /** Client certificate chain and its key, PEM. */
  readonly cert?: string;
  readonly key?: string;
}

export interface ClusterAccess {
  /** `https:` with host, port and, behind some proxies, a path that all requests begin with. */
  readonly server: URL;
  /** Name that the server's certificate must have, where it is not the host of `server`. */
  readonly serverName?: string;
  /** Namespace of the context or of the Pod. */
  readonly namespace?: string;
  /** Rejects with CtlError naming the file that cannot be read. */
  tls(): Promise<TlsMaterial>;
  /** The bearer token for a request; undefined where there is none. Token files are read again for each request. */
  token(): Promise<string | undefined>;
  /** The server rejected these credentials (HTTP 401). Those that can be renewed are renewed before the next request. */
  rejected?(): void;
}
