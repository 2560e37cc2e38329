/** One proxy's session: which views it has, which it is about to have, and how long its last change has been on the way. */
import { CtlError } from '../core/errors.ts';
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
  /** A view has its first session again, or has lost its last. */
  occupied(view: SessionView): void;
  vacated(view: SessionView): void;
  closed(session: Session): void;
  now(): number;
}

/** A push that waits for another part of the same proxy; its version is the one it is sent at. */
export type HeldPush = Omit<PendingPush, 'version'>;

export type SessionView = ViewState<Session>;

/** Changes on their way to the proxy, as one: the oldest event, the newest version. */
export interface Converging {
  readonly since: number;
  readonly version: number;
  /** Something was sent since; what then turns out to need nothing more still has to be acknowledged. */
  sent: boolean;
}

export class Session implements ProxySession {
  readonly node: ProxyNode;
  readonly connectionId: string;
  readonly sink: PushSink;
  readonly ready: Promise<void>;
  readonly #host: SessionHost;
  #views: readonly SessionView[] = [];
  /** Views wanted instead of the current ones, once all of them are built. */
  #next: readonly SessionView[] | undefined;
  /**
   * Its secrets while it is to leave the views that it has. Others may keep those, and get new secrets by them; this proxy may be leaving
   * because it has lost the right to them.
   */
  #lastSecrets: readonly Bundle[] | undefined;
  /** What {@link parts} said last: streams ask many times for each push, and tell by the object that nothing has changed. */
  readonly #parts: Partial<Record<XdsType, readonly Bundle[]>> = {};
  #converging: Converging | undefined;
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

  /** True when the view is a part of what the proxy has now. */
  has(view: SessionView): boolean {
    return this.#views.includes(view);
  }

  /** True when the proxy is to have the view from here on; false for one that it is leaving. */
  wants(view: SessionView): boolean {
    return (this.#next ?? this.#views).includes(view);
  }

  /** Sets the views that the proxy should have; {@link adopt} moves it there. */
  want(views: readonly SessionView[]): void {
    const before = this.#next ?? [];
    for (const view of views) {
      if (view.sessions.size === 0) this.#host.occupied(view);
      view.sessions.add(this);
    }
    this.#next = sameViews(views, this.#views) ? undefined : views;
    this.#lastSecrets = this.#next && (this.#lastSecrets ?? this.#views.map((view) => view.bundle('sds')));
    this.#leave(before.filter((view) => !views.includes(view) && !this.#views.includes(view)));
  }

  /** Moves to the wanted views when all are built. True when it moved now. */
  adopt(): boolean {
    const next = this.#next;
    if (next === undefined || !next.every((view) => view.built)) return false;
    const left = this.#views.filter((view) => !next.includes(view));
    this.#views = next;
    this.#next = undefined;
    this.#lastSecrets = undefined;
    this.#leave(left);
    this.#resolveReady();
    return true;
  }

  fail(error: unknown): void {
    this.#rejectReady(error);
  }

  parts(type: XdsType): readonly Bundle[] {
    if (type === 'sds' && this.#lastSecrets !== undefined) return this.#lastSecrets;
    const known = this.#parts[type];
    if (known !== undefined && this.#isCurrent(known, type)) return known;
    const parts = this.#views.map((view) => view.bundle(type));
    this.#parts[type] = parts;
    return parts;
  }

  #isCurrent(parts: readonly Bundle[], type: XdsType): boolean {
    if (parts.length !== this.#views.length) return false;
    for (let index = 0; index < parts.length; index++)
      if (parts[index] !== this.#views[index]?.bundle(type)) return false;
    return true;
  }

  version(): number {
    let version = this.#host.version;
    for (const view of this.#views)
      if (view.isDirty || view.inFlight) version = Math.min(version, view.committedVersion);
    return version;
  }

  request(types: Iterable<XdsType>): void {
    this.#host.request(this, types);
  }

  /** The changes that are on their way to the proxy; another object after each {@link changed}. */
  get converging(): Converging | undefined {
    return this.#converging;
  }

  /** A change of this age is on its way to the proxy. */
  changed(since: number, version: number): void {
    const { since: oldest = since, version: newest = version, sent = false } = this.#converging ?? {};
    this.#converging = { since: Math.min(since, oldest), version: Math.max(version, newest), sent };
  }

  /** True when no change is on the way to the proxy. */
  get settled(): boolean {
    if (this.#converging !== undefined || this.#held !== undefined || this.#next !== undefined) return false;
    return this.#views.every((view) => !view.isDirty && !view.inFlight);
  }

  /** True when all that is on the way is in the parts, so that the stream may be through with it without knowing. */
  get mayBeSynced(): boolean {
    return this.#converging !== undefined && this.version() >= this.#converging.version;
  }

  /** Something of what is on the way was sent. */
  sent(): void {
    if (this.#converging !== undefined) this.#converging.sent = true;
  }

  synced(version: number): void {
    const converging = this.#converging;
    if (converging === undefined || version < converging.version) return;
    this.#converging = undefined;
    this.#host.converged(this.#host.now() - converging.since);
  }

  /** A push found nothing to send: the changes known when it began concern nothing that the proxy asks for. */
  unconcerned(known: Converging | undefined): void {
    if (known !== undefined && known === this.#converging && !known.sent) this.#converging = undefined;
  }

  /** True while a part other than `committed` is being generated. */
  awaitsAnother(committed: SessionView): boolean {
    return this.#views.some((view) => view !== committed && view.inFlight);
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
    const views = [...this.#views, ...(this.#next ?? [])];
    this.#views = [];
    this.#next = undefined;
    this.#lastSecrets = undefined;
    this.#held = undefined;
    this.#converging = undefined;
    this.#leave(views);
    // Whoever waits for the first configuration has to learn that it will not come.
    this.#rejectReady(new CtlError('unavailable', 'the session is closed'));
    this.#host.closed(this);
  }

  #leave(views: readonly SessionView[]): void {
    for (const view of views) {
      if (view.sessions.delete(this) && view.sessions.size === 0) this.#host.vacated(view);
    }
  }
}

function sameViews(a: readonly SessionView[], b: readonly SessionView[]): boolean {
  return a.length === b.length && a.every((view, index) => view === b[index]);
}
