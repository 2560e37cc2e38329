/** One proxy's session: which views it has, which it is about to have, and how long its last change has been on the way. */
import type { ProxyNode } from '../core/proxy.ts';
import type { XdsType } from '../generate/types.ts';
import type { Bundle, PendingPush, ProxySession, PushSink } from './types.ts';
import type { ViewState } from './view-state.ts';

/** The engine's side, as far as a session needs it. */
export interface SessionHost {
  /** The version that views with nothing left to do stand at. */
  readonly version: number;
  request(session: Session, types: Iterable<XdsType>): void;
  converged(milliseconds: number): void;
  closed(session: Session): void;
  now(): number;
}

/** A push that waits for another part of the same proxy; its version is the one it is sent at. */
export type HeldPush = Omit<PendingPush, 'version'>;

export type SessionView = ViewState<Session>;

export class Session implements ProxySession {
  readonly node: ProxyNode;
  readonly connectionId: string;
  readonly sink: PushSink;
  readonly ready: Promise<void>;
  readonly #host: SessionHost;
  #views: readonly SessionView[] = [];
  /** Views wanted instead of the current ones, once all of them are built. */
  #next: readonly SessionView[] | undefined;
  #converging: { since: number; version: number } | undefined;
  #held: HeldPush | undefined;
  #resolveReady: () => void = () => {};
  #rejectReady: (error: unknown) => void = () => {};

  constructor(node: ProxyNode, connectionId: string, sink: PushSink, host: SessionHost) {
    this.node = node;
    this.connectionId = connectionId;
    this.sink = sink;
    this.#host = host;
    this.ready = new Promise((resolve, reject) => {
      this.#resolveReady = resolve;
      this.#rejectReady = reject;
    });
    // A stream may have closed before anyone waits.
    this.ready.catch(() => {});
  }

  get views(): readonly SessionView[] {
    return this.#views;
  }

  /** Sets the views that the proxy should have. Returns those it is to be entered into. */
  want(views: readonly SessionView[]): void {
    this.#leave(this.#next?.filter((view) => !views.includes(view) && !this.#views.includes(view)) ?? []);
    this.#next = sameViews(views, this.#views) ? undefined : views;
    for (const view of views) {
      view.sessions.add(this);
      view.idleSince = undefined;
    }
  }

  /** Moves to the wanted views when all are built. True when it moved now. */
  adopt(): boolean {
    const next = this.#next;
    if (next === undefined || !next.every((view) => view.built)) return false;
    const left = this.#views.filter((view) => !next.includes(view));
    this.#views = next;
    this.#next = undefined;
    this.#leave(left);
    this.#resolveReady();
    return true;
  }

  fail(error: unknown): void {
    this.#rejectReady(error);
  }

  parts(type: XdsType): readonly Bundle[] {
    return this.#views.map((view) => view.bundle(type));
  }

  version(): number {
    const behind = this.#views.filter((view) => view.isDirty || view.inFlight).map((view) => view.committedVersion);
    return Math.min(this.#host.version, ...behind);
  }

  request(types: Iterable<XdsType>): void {
    this.#host.request(this, types);
  }

  /** A change of this age is on its way to the proxy. */
  changed(since: number, version: number): void {
    this.#converging = {
      since: Math.min(since, this.#converging?.since ?? since),
      version: Math.max(version, this.#converging?.version ?? version),
    };
  }

  /** True when no change is on the way to the proxy. */
  get settled(): boolean {
    return this.#converging === undefined && this.#held === undefined && this.#next === undefined;
  }

  synced(version: number): void {
    const converging = this.#converging;
    if (converging === undefined || version < converging.version) return;
    this.#converging = undefined;
    this.#host.converged(this.#host.now() - converging.since);
  }

  /** The change turned out to concern nothing that the proxy asks for. */
  unconcerned(): void {
    this.#converging = undefined;
  }

  /** True while a part other than `committed` is being generated. */
  awaitsAnother(committed: SessionView): boolean {
    return this.#views.some((view) => view !== committed && (view.inFlight || view.isDirty));
  }

  hold(push: HeldPush): void {
    this.#held = push;
  }

  takeHeld(): HeldPush | undefined {
    const held = this.#held;
    this.#held = undefined;
    return held;
  }

  close(): void {
    this.#leave([...this.#views, ...(this.#next ?? [])]);
    this.#views = [];
    this.#next = undefined;
    this.#host.closed(this);
  }

  #leave(views: readonly SessionView[]): void {
    for (const view of views) {
      view.sessions.delete(this);
      if (view.sessions.size === 0) view.idleSince = this.#host.now();
    }
  }
}

function sameViews(a: readonly SessionView[], b: readonly SessionView[]): boolean {
  return a.length === b.length && a.every((view, index) => view === b[index]);
}
