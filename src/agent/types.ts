/**
 * The contracts inside ctl-agent: certificates come from a `SecretSource`; the SDS server, the health endpoints,
 * OUTPUT_CERTS and the connections to the control plane all read the same one.
 *
 *   token ─▶ CA client ─▶ secret source ─▶ SDS server (UDS) ─▶ Envoy
 *                                     └──▶ OUTPUT_CERTS, metrics
 */

/** What the Envoy is: beside a workload, or a gateway. */
export type ProxyRole = 'sidecar' | 'router';

/** Key and certificate chain of the workload, PEM. */
export interface WorkloadCertificate {
  readonly key: string;
  /** Leaf first, then intermediates (no root). */
  readonly chain: string;
  /** Epoch ms. */
  readonly notBefore: number;
  readonly expiresAt: number;
}

/** What the workload proves itself with and whom it trusts. Values are replaced as a whole, never changed. */
export interface WorkloadSecrets {
  readonly certificate: WorkloadCertificate;
  /** PEM certificates of the trusted roots, one after the other. */
  readonly roots: string;
}

/** The workload's secrets over time. */
export interface SecretSource {
  /** Undefined until the first ones were had. */
  current(): WorkloadSecrets | undefined;
  /** Called after every change. Returns how to stop. */
  onChange(listener: (secrets: WorkloadSecrets) => void): () => void;
  /**
   * Starts getting and rotating them: resolves at once, whatever the control plane's state; faults are retried with
   * backoff and logged.
   */
  start(): void;
  close(): Promise<void>;
}

/** One number for whoever serves metrics. */
export interface IdentityMetric {
  readonly name: string;
  readonly value: number;
  readonly labels?: Readonly<Record<string, string>>;
}

/** The identity half of the agent as the rest of it sees it. */
export interface AgentIdentity {
  readonly secrets: SecretSource;
  /** Unix domain socket of the SDS server, for the bootstrap; it listens when this object exists. */
  readonly sdsPath: string;
  /** The metrics of certificates, of the SDS server and of calls to the authority, as they are now. */
  metrics(): readonly IdentityMetric[];
  close(): Promise<void>;
}
