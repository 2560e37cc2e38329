/**
 * The interfaces of security: authenticators of callers, the authority that signs, and the store of the authority's
 * key. The xDS server and the certificate service use the same authenticators.
 *
 *   connection + metadata ──▶ authenticators ──▶ Caller ──▶ certificate service ──CSR──▶ signing pool ──▶ chain
 *                                                      └──▶ xDS stream (its node may only name the caller's identity)
 */
import type { Identity } from '../core/identity.ts';

/** The credentials that a connection and a call present. None of them is verified yet. */
export interface Credentials {
  /**
   * Certificates that the client presented in the handshake, DER, leaf first; may be empty. The handshake proved the
   * leaf's key.
   */
  readonly certificates: readonly Uint8Array[];
  /** The token of `authorization: Bearer …`; undefined when the call has none. */
  readonly bearer: string | undefined;
  /** Address of the caller, for logs and limits: where a call comes from confers no identity (CVE-2022-39388). */
  readonly peer: string;
}

export interface BoundPod {
  readonly name: string;
  /** Its cluster; absent: the program's own. */
  readonly cluster?: string;
  /** Distinguishes it from an earlier Pod of the same name; '' if unknown. */
  readonly uid: string;
}

/** A caller with a proven identity. */
export interface Caller {
  readonly identity: Identity;
  readonly by: 'certificate' | 'token';
  /** When the credential expires, epoch milliseconds. */
  readonly expiresAt: number;
  /** The Pod that the credential is bound to, in the namespace of the identity; absent when it is bound to none. */
  readonly pod?: BoundPod;
}

export interface Authenticator {
  /** For logs and errors: `client certificate`, `token of https://…`. */
  readonly name: string;
  /**
   * The caller; undefined when the credentials have nothing for this authenticator. Rejects with CtlError
   * unauthenticated when its credential is invalid, and with unavailable when that cannot be decided now.
   */
  authenticate(credentials: Credentials): Promise<Caller | undefined>;
}

/**
 * Tries authenticators in order. Rejects with CtlError unauthenticated (one line with all reasons) when none accepts
 * the caller.
 */
export interface Authentication {
  authenticate(credentials: Credentials): Promise<Caller>;
}

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
   * Signs a certificate; returns PEM, leaf first, root last. Rejects with CtlError invalid_argument (unreadable CSR,
   * weak key, lifetime over MAX_WORKLOAD_CERT_TTL) or unavailable.
   */
  sign(request: SigningRequest): Promise<readonly string[]>;
  /** PEM certificates of the roots that workloads must trust, the signing one first. */
  trustBundle(): readonly string[];
  /**
   * A serving certificate for these DNS names, signed by the mesh CA, for secure gRPC addresses of the control plane.
   * With an identity, it also identifies this control plane as a client of others.
   */
  serverCertificate(
    dnsNames: readonly string[],
    lifetimeSeconds: number,
    identity?: Identity,
  ): Promise<ServerCertificate>;
  /**
   * Registers a listener for changes of the trust bundle or of the signing key. Returns the function that removes it.
   */
  onChange(listener: () => void): () => void;
  /** When the signing certificate's chain and its root expire, epoch ms. */
  expiry(): { readonly chain: number; readonly root: number };
  close(): Promise<void>;
}

/** The state that a self-signed authority must keep. */
export interface AuthorityState {
  /** PEM, PKCS #8: the key that signs now. */
  readonly key: string;
  /** PEM: the root certificate of that key. */
  readonly certificate: string;
  /** The next root: trusted, but not signing until it has been distributed. */
  readonly next?: { readonly key: string; readonly certificate: string; readonly announcedAt: number };
  /** Earlier roots with certificates that have not expired: still trusted, but their keys are deleted. */
  readonly former: readonly string[];
}

/** Stores the state of a self-signed authority: in a directory, or in a Secret of a cluster. */
export interface AuthorityStore {
  /**
   * Undefined when nothing has been stored yet. Rejects with CtlError that names the file or the object when the stored
   * state cannot be read: that must never lead to a new root.
   */
  load(options?: LoadOptions): Promise<AuthorityState | undefined>;
  /**
   * Resolves when the state is durable. A shared store rejects with CtlError already_exists when another program has
   * changed the state since it was loaded.
   */
  save(state: AuthorityState): Promise<void>;
  /** Present when several programs share the store. */
  readonly shared?: SharedStore;
}

export interface LoadOptions {
  /** Whether a shared store that was deleted is written again with the state in force. */
  readonly restore?: boolean;
}

/** The additional methods of a store that several programs share. */
export interface SharedStore {
  /** The state that was loaded or saved last, for when the store cannot be read. */
  lastGood(): AuthorityState | undefined;
  /** Calls `onChange` after each change of the state, until the returned function is called. */
  watch(onChange: () => void): () => Promise<void>;
}
