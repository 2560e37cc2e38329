/**
 * The self-signed root: created once, stored, and replaced before it expires. Each step is stored before it takes
 * effect, so that a restart finds it. A store that cannot be read or written leaves the current roots in force. Keys
 * are not kept in memory: each step that needs them reads the store.
 */
import { X509Certificate } from 'node:crypto';
import type { Timer } from '../../core/clock.ts';
import { CtlError } from '../../core/errors.ts';
import type { WallClock } from '../../core/wall-clock.ts';
import type { AuthorityState, AuthorityStore } from '../types.ts';
import type { OpenedSource, RootEvents, RootSet, RootSource, SigningMaterial } from './root-source.ts';
import { nextCheckMs, type RotationSettings, type RotationState, type RotationStep, rotationStep } from './rotation.ts';
import type { Root } from './self-signed-root.ts';

export interface SelfSignedOptions {
  readonly store: AuthorityStore;
  /** Creates a root that is valid from `now`, epoch ms. */
  readonly newRoot: (now: number) => Promise<Root>;
  readonly rotation: RotationSettings;
  /** The first check happens after a random part of an interval, so that many instances do not check at once. */
  readonly jitter: boolean;
  readonly clock: WallClock;
  /** From 0 to 1. */
  readonly random: () => number;
  readonly events: RootEvents;
  readonly log: (message: string) => void;
  /** Called for each step of a rotation. */
  readonly rotated: (message: string) => void;
}

/** The state without its keys. */
interface Known {
  readonly certificate: string;
  readonly next: { readonly certificate: string; readonly announcedAt: number } | undefined;
  readonly former: readonly string[];
}

/**
 * Opens the root. Rejects with CtlError that names the file when the state cannot be read or the first root cannot be
 * stored.
 */
export async function openSelfSigned(options: SelfSignedOptions): Promise<OpenedSource> {
  const root = new SelfSignedSource(options);
  return { source: root, material: await root.open() };
}

class SelfSignedSource implements RootSource {
  readonly #options: SelfSignedOptions;
  readonly #servingSince: number;
  #known: Known = { certificate: '', next: undefined, former: [] };
  #roots: RootSet = { path: [], bundle: [], ends: { chain: 0, root: 0 } };
  /** Serializes the steps: two concurrent ones would both read the state, and one change would be lost. */
  #turn: Promise<unknown> = Promise.resolve();
  #timer: Timer | undefined;
  #closed = false;

  constructor(options: SelfSignedOptions) {
    this.#options = options;
    this.#servingSince = options.clock.now();
  }

  async open(): Promise<SigningMaterial> {
    const kept = await this.#options.store.load();
    const state = kept === undefined ? await this.#begin() : await this.#resume(kept);
    this.#adopt(state);
    const { intervalMs } = this.#options.rotation;
    if (intervalMs > 0) this.#schedule(this.#options.jitter ? this.#options.random() * intervalMs : 0);
    return materialOf(state);
  }

  roots(): RootSet {
    return this.#roots;
  }

  material(): Promise<SigningMaterial> {
    return this.#inTurn(async () => {
      const state = await this.#load();
      const material = materialOf(state);
      if (this.#adopt(state)) this.#options.events.changed(this.#roots, material);
      return material;
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#timer?.cancel();
    await this.#turn;
  }

  async #begin(): Promise<AuthorityState> {
    const { store, newRoot, clock, log } = this.#options;
    const state = { ...(await newRoot(clock.now())), former: [] };
    await store.save(state);
    log('created a self-signed root certificate');
    return state;
  }

  /**
   * Resumes from the stored state. A root that expired while the program was down is replaced before anything is
   * signed.
   */
  async #resume(kept: AuthorityState): Promise<AuthorityState> {
    const state = this.#pruned(kept);
    if (this.#options.clock.now() < endOf(state.certificate)) {
      // Also writes the trust bundle, which may be outdated after a crash.
      await this.#options.store.save(state).catch((error: unknown) => this.#options.events.problem(error));
      return state;
    }
    if (this.#options.rotation.intervalMs <= 0) {
      const message = 'the self-signed root certificate has expired, and its rotation is switched off';
      throw new CtlError('failed_precondition', message, { field: 'CA_SELF_SIGNED_ROOT_CERT_CHECK_INTERVAL' });
    }
    return this.#stepped(state, state.next === undefined ? 'replace' : 'switch');
  }

  async #check(): Promise<void> {
    const before = await this.#load();
    const state = this.#pruned(before);
    const step = rotationStep(this.#rotationState(), this.#options.rotation, this.#options.clock.now());
    const after = step === 'keep' ? state : await this.#stepped(state, step);
    if (step === 'keep' && state.former.length < before.former.length) await this.#options.store.save(state);
    if (this.#closed) return;
    const switched = after.certificate !== this.#known.certificate;
    if (this.#adopt(after)) this.#options.events.changed(this.#roots, switched ? materialOf(after) : undefined);
  }

  /** The stored state. A state that has vanished is an error, and does not lead to a new root. */
  async #load(): Promise<AuthorityState> {
    const state = await this.#options.store.load();
    if (state === undefined) throw new CtlError('failed_precondition', "the certificate authority's state is gone");
    return state;
  }

  async #stepped(state: AuthorityState, step: Exclude<RotationStep, 'keep'>): Promise<AuthorityState> {
    const { clock, store, newRoot, rotated } = this.#options;
    const now = clock.now();
    const next = state.next ?? { ...(await newRoot(now)), announcedAt: now };
    const { key, certificate } = next;
    const after: AuthorityState =
      step === 'announce'
        ? { ...state, next }
        : this.#pruned({ key, certificate, former: [state.certificate, ...state.former] });
    await store.save(after);
    rotated(
      step === 'announce' ? 'announced the next root certificate' : 'the next root certificate signs from now on',
    );
    return after;
  }

  /** The state without expired former roots. */
  #pruned(state: AuthorityState): AuthorityState {
    const now = this.#options.clock.now();
    return { ...state, former: state.former.filter((certificate) => now < endOf(certificate)) };
  }

  #rotationState(): RotationState {
    const { certificate, next } = this.#known;
    return { current: lifeOf(certificate), announcedAt: next?.announcedAt, servingSince: this.#servingSince };
  }

  /** Puts a state in force. True when the roots have changed. */
  #adopt({ certificate, next, former }: AuthorityState): boolean {
    const bundle = [certificate, ...(next ? [next.certificate] : []), ...former];
    const changed = bundle.join('') !== this.#roots.bundle.join('');
    this.#known = {
      certificate,
      former,
      next: next && { certificate: next.certificate, announcedAt: next.announcedAt },
    };
    const end = endOf(certificate);
    if (changed) this.#roots = { path: [certificate], bundle, ends: { chain: end, root: end } };
    return changed;
  }

  #schedule(ms: number): void {
    if (this.#closed) return;
    this.#timer = this.#options.clock.setTimer(ms, () => {
      void this.#inTurn(() => this.#check())
        .catch((error: unknown) => this.#options.events.problem(error))
        .then(() => this.#schedule(this.#waitMs()));
    });
  }

  #waitMs(): number {
    return nextCheckMs(this.#rotationState(), this.#options.rotation, this.#options.clock.now());
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(work);
    this.#turn = result.catch(() => {});
    return result;
  }
}

function materialOf({ key, certificate }: AuthorityState): SigningMaterial {
  return { key, path: [certificate], chainEnd: endOf(certificate) };
}

function endOf(certificate: string): number {
  return lifeOf(certificate).notAfter;
}

function lifeOf(certificate: string): { readonly notBefore: number; readonly notAfter: number } {
  const { validFromDate, validToDate } = new X509Certificate(certificate);
  return { notBefore: validFromDate.getTime(), notAfter: validToDate.getTime() };
}
