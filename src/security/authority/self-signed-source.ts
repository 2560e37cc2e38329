/**
 * The self-signed root: created once, stored, and replaced before it expires. Each step is stored before it takes
 * effect, so that a restart finds it. A store that cannot be read or written leaves the current roots in force. Keys
 * are not kept here: each step that needs them reads the store.
 *
 * Several programs can share a store. All of them follow it: the first to write creates the root, and the one that was
 * elected replaces it. A root that an operator puts into the store is followed as well, and the root before it stays
 * trusted until it expires.
 */
import { X509Certificate } from 'node:crypto';
import { backoff } from '../../core/backoff.ts';
import type { Timer } from '../../core/clock.ts';
import { CtlError } from '../../core/errors.ts';
import { SerialWork } from '../../core/scheduling/serial-work.ts';
import type { WallClock } from '../../core/wall-clock.ts';
import type { AuthorityState, AuthorityStore } from '../types.ts';
import type { RootEvents, RootSet, RootSource, SigningMaterial } from './root-source.ts';
import { nextCheckMs, type RotationSettings, type RotationState, type RotationStep, rotationStep } from './rotation.ts';
import type { Root } from './self-signed-root.ts';

export interface SelfSignedOptions {
  readonly store: AuthorityStore;
  /** The state of an authority that was stored elsewhere before: the first state of an empty store. */
  readonly earlier?: () => Promise<AuthorityState | undefined>;
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

interface PublicState {
  readonly certificate: string;
  readonly next: { readonly certificate: string; readonly servedSince: number } | undefined;
  readonly former: readonly string[];
}

export interface RotatedSource extends RootSource {
  /** Replaces the root before it expires, until `signal` aborts. With a shared store, for one program at a time. */
  rotate(signal: AbortSignal): void;
}

/** Attempts to begin while other programs write to a shared store. */
const MAX_CONFLICTS = 5;
/** The maximum number of roots that operators replaced and that stay trusted, as with a plugged-in root. */
const MAX_REPLACED = 8;
/** The minimum time after a failed check or read, ms. */
const RETRY_MS = 5000;
/** The maximum time until a shared store that could not be read is read again, ms. */
const MAX_RETRY_MS = 60_000;

/**
 * Opens the root. Rejects with CtlError that names the file or object when the state cannot be read or the first root
 * cannot be stored.
 */
export async function openSelfSigned(
  options: SelfSignedOptions,
): Promise<{ readonly source: RotatedSource; readonly material: SigningMaterial }> {
  const root = new SelfSignedSource(options);
  return { source: root, material: await root.open() };
}

class SelfSignedSource implements RotatedSource {
  readonly #options: SelfSignedOptions;
  #known: PublicState = { certificate: '', next: undefined, former: [] };
  #roots: RootSet = { path: [], bundle: [], ends: { chain: 0, root: 0 } };
  /** Serializes the steps: two concurrent ones would both read the state, and one change would be lost. */
  readonly #work = new SerialWork();
  #timer: Timer | undefined;
  #closed = false;
  /** Not aborted while this program replaces the root. */
  #rotation: AbortSignal | undefined;
  #endWatch: (() => Promise<void>) | undefined;
  /** Whether the store is about to be read, because it has changed. */
  #isFollowing = false;
  /** Consecutive failures to read or to restore a shared store. */
  #failures = 0;
  #retry: Timer | undefined;
  /** Roots that were in force and that an operator replaced in the store, the last one first. */
  #replaced: readonly string[] = [];

  constructor(options: SelfSignedOptions) {
    this.#options = options;
  }

  async open(): Promise<SigningMaterial> {
    const state = await this.#first();
    this.#adopt(state);
    const { shared } = this.#options.store;
    if (shared === undefined) this.rotate(new AbortController().signal);
    else this.#endWatch = shared.watch(() => this.#followSoon());
    return materialOf(state);
  }

  rotate(signal: AbortSignal): void {
    const { store, rotation, jitter, random } = this.#options;
    this.#rotation = signal;
    signal.addEventListener('abort', () => this.#timer?.cancel(), { once: true });
    const isShared = store.shared !== undefined;
    // A store that was deleted while no program was elected is written again.
    if (isShared) this.#followSoon();
    if (rotation.intervalMs <= 0) return;
    const wait = jitter ? random() * rotation.intervalMs : 0;
    this.#schedule(isShared ? Math.min(wait, this.#waitMs()) : wait, signal);
  }

  roots(): RootSet {
    return this.#roots;
  }

  material(): Promise<SigningMaterial> {
    return this.#work.run(async () => {
      const state = await this.#loadOrLastGood();
      const material = materialOf(state);
      if (this.#adopt(state)) this.#options.events.changed(this.#roots, material);
      return material;
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#timer?.cancel();
    this.#retry?.cancel();
    await this.#endWatch?.();
    await this.#work.ended();
  }

  get #isRotating(): boolean {
    return !this.#closed && this.#rotation?.aborted === false;
  }

  async #first(): Promise<AuthorityState> {
    for (let attempt = 1; ; attempt++) {
      try {
        const kept = await this.#options.store.load();
        if (kept === undefined) return await this.#begin();
        await this.#reportUnused(kept);
        return await this.#resume(kept);
      } catch (error) {
        if (!isConflict(error) || attempt === MAX_CONFLICTS) throw error;
      }
    }
  }

  async #begin(): Promise<AuthorityState> {
    const { store, newRoot, clock, log, earlier } = this.#options;
    const moved = await earlier?.();
    if (moved !== undefined) {
      await store.save(moved);
      log('moved the self-signed root certificate to its new store');
      return this.#resume(moved);
    }
    const state = { ...(await newRoot(clock.now())), former: [] };
    await store.save(state);
    log('created a self-signed root certificate');
    return state;
  }

  /** Reports a root that is only in an earlier store: workloads with its certificates are no longer trusted. */
  async #reportUnused({ certificate, next, former }: AuthorityState): Promise<void> {
    const { earlier, clock, events } = this.#options;
    const unused = await earlier?.().catch(() => undefined);
    if (unused === undefined || clock.now() >= notAfterOf(unused.certificate)) return;
    if ([certificate, next?.certificate, ...former].includes(unused.certificate)) return;
    const message = 'has another root certificate; workloads with certificates of it are not trusted';
    events.problem(new CtlError('failed_precondition', message, { field: 'SELF_SIGNED_CA_DIR' }));
  }

  /**
   * Resumes from the stored state. A root that expired while the program was down is replaced before anything is
   * signed.
   */
  async #resume(kept: AuthorityState): Promise<AuthorityState> {
    const state = this.#pruned(kept);
    if (this.#options.clock.now() < notAfterOf(state.certificate)) {
      // Also writes the trust bundle, which may be outdated after a crash.
      await this.#options.store.save(state).catch((error: unknown) => {
        if (!isConflict(error)) this.#options.events.problem(error);
      });
      return state;
    }
    if (this.#options.rotation.intervalMs <= 0) {
      const message = 'the self-signed root certificate has expired, and its rotation is switched off';
      throw new CtlError('failed_precondition', message, { field: 'CA_SELF_SIGNED_ROOT_CERT_CHECK_INTERVAL' });
    }
    return this.#stepped(state, state.next === undefined ? 'replace' : 'switch');
  }

  async #check(): Promise<void> {
    if (!this.#isRotating) return;
    const before = await this.#load();
    this.#enforce(before);
    const state = this.#pruned(before);
    const step = rotationStep(this.#rotationState(), this.#options.rotation, this.#options.clock.now());
    const after = step === 'keep' ? state : await this.#stepped(state, step);
    if (step === 'keep' && state.former.length < before.former.length) await this.#options.store.save(state);
    this.#enforce(after);
  }

  /** Reads a shared store once for all changes that arrive until then. */
  #followSoon(): void {
    if (this.#isFollowing) return;
    this.#isFollowing = true;
    void this.#work.run(() => {
      this.#isFollowing = false;
      return this.#follow();
    });
  }

  /** Puts in force what another program or an operator has written to a shared store. */
  async #follow(): Promise<void> {
    if (this.#closed) return;
    this.#retry?.cancel();
    try {
      const state = await this.#load(this.#isRotating);
      this.#enforce(state);
      if (this.#isRotating && this.#replaced.length > 0) {
        const former = [...this.#replaced, ...state.former];
        await this.#options.store.save({ ...state, former });
        this.#enforce({ ...state, former });
      }
      if (this.#failures > 0) this.#options.events.recovered?.();
      this.#failures = 0;
    } catch (error) {
      // The replica that wrote first has caused another change, which is followed.
      if (isConflict(error) || this.#closed) return;
      this.#failed(error);
    }
  }

  /** The watch reports each change once: a failed attempt to read or restore is therefore retried. */
  #failed(error: unknown): void {
    const { events, clock, random } = this.#options;
    events.problem(error);
    if (this.#closed) return;
    this.#retry?.cancel();
    const wait = backoff(++this.#failures, RETRY_MS, MAX_RETRY_MS, random);
    this.#retry = clock.setTimer(wait, () => this.#followSoon());
  }

  #enforce(state: AuthorityState): void {
    if (this.#closed) return;
    const switched = state.certificate !== this.#known.certificate;
    if (this.#adopt(this.#pruned(state)))
      this.#options.events.changed(this.#roots, switched ? materialOf(state) : undefined);
  }

  /** The stored state. A missing state is an error, and does not result in a new root. */
  async #load(restore = false): Promise<AuthorityState> {
    const state = await this.#options.store.load({ restore });
    if (state === undefined) throw new CtlError('failed_precondition', "the certificate authority's state was deleted");
    return state;
  }

  async #loadOrLastGood(): Promise<AuthorityState> {
    try {
      return await this.#load();
    } catch (error) {
      const kept = this.#options.store.shared?.lastGood();
      if (kept === undefined) throw error;
      this.#failed(error);
      return kept;
    }
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
      step === 'announce' ? 'announced the next root certificate' : 'the next root certificate now signs certificates',
    );
    return after;
  }

  #pruned(state: AuthorityState): AuthorityState {
    const now = this.#options.clock.now();
    return { ...state, former: state.former.filter((certificate) => now < notAfterOf(certificate)) };
  }

  #rotationState(): RotationState {
    const { certificate, next } = this.#known;
    return { current: validityOf(certificate), nextServedSince: next?.servedSince };
  }

  /** Puts a state in force. Returns true when the roots have changed. */
  #adopt({ certificate, next, former }: AuthorityState): boolean {
    const stored = [certificate, ...(next ? [next.certificate] : []), ...former];
    this.#replaced = this.#replacedBy(stored);
    const bundle = [...stored, ...this.#replaced];
    const changed = bundle.join('') !== this.#roots.bundle.join('');
    this.#known = {
      certificate,
      former,
      next: next && this.#nextOf(next.certificate),
    };
    const end = notAfterOf(certificate);
    if (changed) this.#roots = { path: [certificate], bundle, ends: { chain: end, root: end } };
    return changed;
  }

  #nextOf(certificate: string): NonNullable<PublicState['next']> {
    const { next } = this.#known;
    return next?.certificate === certificate ? next : { certificate, servedSince: this.#options.clock.now() };
  }

  /** The roots that were in force, are not among the stored ones, and have not expired. */
  #replacedBy(stored: readonly string[]): readonly string[] {
    const now = this.#options.clock.now();
    const [signing] = this.#roots.path;
    const isGone = signing !== undefined && !stored.includes(signing);
    if (isGone) this.#options.log('uses another root certificate that was written to its store');
    const all = isGone ? [signing, ...this.#replaced] : this.#replaced;
    return all
      .filter((certificate) => !stored.includes(certificate) && now < notAfterOf(certificate))
      .slice(0, MAX_REPLACED);
  }

  #schedule(ms: number, signal: AbortSignal): void {
    if (this.#closed || signal.aborted) return;
    this.#timer = this.#options.clock.setTimer(ms, () => void this.#checkInTurn(signal));
  }

  async #checkInTurn(signal: AbortSignal): Promise<void> {
    let least = 0;
    try {
      await this.#work.run(() => this.#check());
    } catch (error) {
      if (!isConflict(error)) this.#options.events.problem(error);
      least = Math.min(RETRY_MS, this.#options.rotation.intervalMs);
    }
    this.#schedule(Math.max(least, this.#waitMs()), signal);
  }

  #waitMs(): number {
    return nextCheckMs(this.#rotationState(), this.#options.rotation, this.#options.clock.now());
  }
}

function materialOf({ key, certificate }: AuthorityState): SigningMaterial {
  return { key, path: [certificate], chainEnd: notAfterOf(certificate) };
}

function notAfterOf(certificate: string): number {
  return validityOf(certificate).notAfter;
}

function validityOf(certificate: string): { readonly notBefore: number; readonly notAfter: number } {
  const { validFromDate, validToDate } = new X509Certificate(certificate);
  return { notBefore: validFromDate.getTime(), notAfter: validToDate.getTime() };
}

/** Whether another program wrote to a shared store first. */
function isConflict(error: unknown): boolean {
  return error instanceof CtlError && error.code === 'already_exists';
}
