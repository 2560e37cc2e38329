/**
 * The contracts of the security room: who calls (authenticators), who signs (the authority), and where the authority's
 * own key is kept. The xDS server and the certificate service both ask the same authenticators.
 *
 *   connection + metadata ──▶ authenticators ──▶ Caller ──▶ certificate service ──CSR──▶ signing pool ──▶ chain
 *                                                      └──▶ xDS stream (its node may claim only the caller's identity)
 */
import type { Identity } from '../core/identity.ts';

/** What a connection and a call show of their caller. Nothing of it is trusted yet. */
export interface Credentials {
  /**
   * Certificates that the client showed in the handshake, DER, leaf first; empty without any. The handshake proved the
   * leaf's key.
   */
  readonly certificates: readonly Uint8Array[];
  /** The token of `authorization: Bearer …`; undefined when the call has none. */
  readonly bearer: string | undefined;
  /** Address of the caller, for logs only: where a call comes from confers no identity (CVE-2022-39388). */
  readonly peer: string;
}

/** A caller whose identity is proved. */
export interface Caller {
  readonly identity: Identity;
  readonly by: 'certificate' | 'token';
  /** When the credential ends, epoch milliseconds. */
  readonly expiresAt: number;
}

/** One way to prove an identity. */
export interface Authenticator {
  /** For logs and errors: `client certificate`, `token of https://…`. */
  readonly name: string;
  /**
   * The caller, or undefined when the credentials have nothing that this authenticator is for. Rejects with CtlError
   * unauthenticated when they do and it does not hold, and with unavailable when that cannot be found out now.
   */
  authenticate(credentials: Credentials): Promise<Caller | undefined>;
}

/**
 * Asks authenticators in order. Rejects with CtlError unauthenticated (one line, all reasons) when none knows the
 * caller.
 */
export interface Authentication {
  authenticate(credentials: Credentials): Promise<Caller>;
}

/** A certificate to be made. */
export interface SigningRequest {
  /** PEM-encoded PKCS #10; only its public key is used. */
  readonly csr: string;
  /** The one URI of the certificate's SAN. */
  readonly identity: Identity;
  /** The requested lifetime; not positive: DEFAULT_WORKLOAD_CERT_TTL. */
  readonly lifetimeSeconds: number;
}

/** Key and certificate of a server of the control plane itself. */
export interface ServerCertificate {
  /** PEM, leaf first, intermediates after it. */
  readonly chain: string;
  /** PEM, PKCS #8. */
  readonly key: string;
  /** Epoch ms. */
  readonly expiresAt: number;
}

/** The mesh's certificate authority. */
export interface Authority {
  /**
   * Signs; gives PEM certificates, leaf first, root last. Rejects with CtlError invalid_argument (CSR that cannot be
   * read, key too weak, lifetime over MAX_WORKLOAD_CERT_TTL) or unavailable.
   */
  sign(request: SigningRequest): Promise<readonly string[]>;
  /** PEM certificates of the roots that workloads are to trust, the signing one first. */
  trustBundle(): readonly string[];
  /**
   * A serving certificate for these DNS names, signed by the mesh CA, for the control plane's own secured addresses.
   */
  serverCertificate(dnsNames: readonly string[], lifetimeSeconds: number): Promise<ServerCertificate>;
  /** Called after each change of the trust bundle or of the signing key. Returns how to stop. */
  onChange(listener: () => void): () => void;
  /** When the signing certificate's chain and its root end, epoch ms. */
  expiry(): { readonly chain: number; readonly root: number };
  close(): Promise<void>;
}

/** What a self-signed authority must not lose. */
export interface AuthorityState {
  /** PEM, PKCS #8: the key that signs now. */
  readonly key: string;
  /** PEM: the root certificate of that key. */
  readonly certificate: string;
  /** A root that is trusted but does not sign yet, while it spreads. */
  readonly next?: { readonly key: string; readonly certificate: string; readonly announcedAt: number };
  /** Earlier roots that still have unexpired leaves: trusted, never signing again (their keys are gone). */
  readonly former: readonly string[];
}

/** Where a self-signed authority keeps its state: a directory here, a Secret where there is a cluster. */
export interface AuthorityStore {
  /**
   * Undefined when nothing was kept yet. Rejects with CtlError naming the file when what was kept cannot be read: never
   * "start anew".
   */
  load(): Promise<AuthorityState | undefined>;
  /** Resolves when the state survives a crash (written aside, fsynced, renamed). */
  save(state: AuthorityState): Promise<void>;
}
