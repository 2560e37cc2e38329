/** What the bench of the certificate authority tells the process of its callers, and what that answers. */

export interface SignCommand {
  readonly port: number;
  /** PEM: the roots that callers trust, and the certificate and key by which they authenticate. */
  readonly root: string;
  readonly chain: string;
  readonly key: string;
  /** The certificate request, PEM. */
  readonly csr: string;
  readonly certificates: number;
  /** Requests that wait at a time, over so many connections. */
  readonly inFlight: number;
  readonly connections: number;
}

export interface SignResult {
  readonly seconds: number;
}
