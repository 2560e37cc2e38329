/**
 * The interfaces inside ctl-agent: certificates come from a `SecretSource`; the SDS server, the health endpoints,
 * OUTPUT_CERTS and the connections to the control plane all use the same one.
 *
 *   token source ─▶ CA client ─▶ secret source ─▶ SDS server (UDS) ─▶ Envoy
 *                                          └─▶ OUTPUT_CERTS, metrics
 */

/** Whether Envoy is the sidecar of a workload or a gateway. */
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

/** The workload's certificate and its trusted roots. Values are replaced as a whole, never changed. */
export interface WorkloadSecrets {
  readonly certificate: WorkloadCertificate;
  /** Concatenated PEM certificates of the trusted roots. */
  readonly roots: string;
  /** Roots of other trust domains by domain, PEM: each verifies certificates of its domain only. */
  readonly federated?: ReadonlyMap<string, string>;
}

/** The workload's secrets over time. */
export interface SecretSource {
  /** The current secrets; undefined until there are any. */
  current(): WorkloadSecrets | undefined;
  /** The reason in one line when there are none; undefined when there are. */
  missing(): string | undefined;
  /** Registers a listener for every change. Returns the function that removes it. */
  onChange(listener: (secrets: WorkloadSecrets) => void): () => void;
  /**
   * Starts fetching and rotating. Resolves at once, whatever the control plane's state; failures are retried with
   * backoff and logged.
   */
  start(): void;
  close(): Promise<void>;
}

/** The token that proves the workload's identity to an authority while the workload has no certificate. */
export interface TokenSource {
  /**
   * The current token. Rejects with CtlError: not_found when there is none, unauthenticated when it is not usable,
   * other codes when it cannot be fetched.
   */
  token(): Promise<string>;
  /** Advice for operators when there is neither a token nor a valid certificate: the end of a log line. */
  readonly advice: string;
}

export interface IdentityMetric {
  readonly name: string;
  readonly value: number;
  readonly labels?: Readonly<Record<string, string>>;
}

/** The identity of the workload, also of one without certificates. */
export interface WorkloadIdentity {
  /** Undefined without certificates. */
  readonly secrets: SecretSource | undefined;
  /** Why applications cannot use the certificate yet; undefined when they can. */
  missing(): string | undefined;
  /** The current metrics of certificates, of the SDS server and of calls to the authority. */
  metrics(): readonly IdentityMetric[];
  close(): Promise<void>;
}

/** The identity part of the agent: certificates, SDS server and their metrics. */
export interface AgentIdentity extends WorkloadIdentity {
  readonly secrets: SecretSource;
  /** Unix domain socket of the SDS server, for the bootstrap; it listens as soon as this object exists. */
  readonly sdsPath: string;
}

export const NO_IDENTITY: WorkloadIdentity = {
  secrets: undefined,
  missing: () => undefined,
  metrics: () => [],
  close: async () => {},
};
