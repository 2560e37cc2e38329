/** Sources of the signing key and the trusted roots: self-signed and stored, or plugged in by an operator. */

export interface RootSet {
  /** PEM: the signing certificate first, its root last. */
  readonly path: readonly string[];
  /** PEM of the roots to be trusted, the signing one first. */
  readonly bundle: readonly string[];
  /** When the first certificate of the path expires, and when its root does, epoch ms. */
  readonly ends: { readonly chain: number; readonly root: number };
}

export interface SigningMaterial {
  /** PEM, PKCS #8. */
  readonly key: string;
  readonly path: readonly string[];
  /** When the first certificate of the path expires, epoch ms. */
  readonly chainEnd: number;
}

export interface RootSource {
  roots(): RootSet;
  /** Reads the signing key from its store, for a worker without one. Changes in the store take effect first. */
  material(): Promise<SigningMaterial>;
  /** Resolves when all reads and writes have ended. */
  close(): Promise<void>;
}

export interface OpenedSource {
  readonly source: RootSource;
  readonly material: SigningMaterial;
}

export interface RootEvents {
  /** New roots are in force; with `material`, another key signs from now on. */
  changed(roots: RootSet, material?: SigningMaterial): void;
  /** A failure; the roots in force stay. */
  problem(error: unknown): void;
  /** The store can be read again after a failure. */
  recovered?(): void;
}
