/** Where the signing key and the trusted roots come from: made here and kept, or plugged in by an operator. */

/** What may be known of the authority outside of its signing worker. */
export interface RootSet {
  /** PEM: the signing certificate first, its root last. */
  readonly path: readonly string[];
  /** PEM of the roots to be trusted, the signing one first. */
  readonly bundle: readonly string[];
  /** When the first certificate of the path ends, and when its root does, epoch ms. */
  readonly ends: { readonly chain: number; readonly root: number };
}

/** What the signing worker is given. */
export interface SigningMaterial {
  /** PEM, PKCS #8. */
  readonly key: string;
  readonly path: readonly string[];
  /** When the first certificate of the path ends, epoch ms. */
  readonly chainEnd: number;
}

export interface RootSource {
  /** What is in force. */
  roots(): RootSet;
  /**
   * The signing key afresh from where it is kept, for a worker that has none. What has changed there is adopted first.
   */
  material(): Promise<SigningMaterial>;
  /** Resolves when nothing of it is read or written any more. */
  close(): Promise<void>;
}

/** A source and the key that it begins with. */
export interface OpenedSource {
  readonly source: RootSource;
  readonly material: SigningMaterial;
}

/** What a source tells of. */
export interface RootEvents {
  /** New roots are in force; with `material` another key signs from now on. */
  changed(roots: RootSet, material?: SigningMaterial): void;
  /** Something is wrong; what was in force stays so. */
  problem(error: unknown): void;
}
