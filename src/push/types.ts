/**
 * What the engine offers to streams: interned encoded resources in immutable bundles, and sessions that say which
 * bundles a proxy should have. *What to serve* stands here; *how to talk* stands in `xds/`.
 */
import type { ProxyNode } from '../core/proxy.ts';
import type { XdsType } from '../generate/types.ts';

/**
 * One resource, encoded once, shared by all proxies. `fragment` is a whole field of a DeltaDiscoveryResponse:
 * `resources { version, name, resource }` with `resource` (an Any) last. Because `DiscoveryResponse.resources` and
 * `Resource.resource` are both field 2, `fragment.subarray(anyOffset)` is the same resource as a field of a SotW
 * response.
 */
export interface EncodedResource {
  readonly name: string;
  /** Content hash (base64url) of the message's bytes: equal bytes, equal version. */
  readonly version: string;
  readonly fragment: Uint8Array;
  readonly anyOffset: number;
  /** EDS names of a cluster, route names of a listener. */
  readonly refs: readonly string[];
}

/** What has to be sent to get from one bundle to another. Computed once per pair, shared. */
export interface BundleDiff {
  readonly changed: readonly EncodedResource[];
  readonly removed: readonly string[];
}

/** An immutable set of resources of one type and one view: the current content of one part. */
export interface Bundle {
  readonly type: XdsType;
  /** Identity of the view that it belongs to; bundles of other views cannot be compared by diff chain. */
  readonly viewKey: string;
  /** Grows with each new bundle of the view. */
  readonly sequence: number;
  readonly size: number;
  get(name: string): EncodedResource | undefined;
  /** In code-unit order of names. */
  resources(): readonly EncodedResource[];
  /** From `previous` (same view, or undefined for nothing) to this; cached, both ways cheap when the two are close. */
  diffFrom(previous: Bundle | undefined): BundleDiff;
  /** All SotW fields (`0x12 len Any`…) joined, made once on first use. */
  sotwBody(): readonly Uint8Array[];
}

/**
 * All parts of a proxy, by type, as they were at one moment: whenever any of them is another, this is another object.
 */
export type Parts = Readonly<Record<XdsType, readonly Bundle[]>>;

/** Why a push happens: the reasons that `ctl_push_triggers` is labelled with. */
export type PushReason = 'config' | 'endpoint' | 'service' | 'mesh' | 'proxy' | 'debug';

/**
 * The merged pending push of one proxy: the newest version, and the earliest event time, which convergence counts from.
 */
export interface PendingPush {
  readonly types: ReadonlySet<XdsType>;
  /** Snapshot version that the proxy shall reach at least. */
  readonly version: number;
  /** Monotonic ms of the first change event that led here. */
  readonly eventTime: number;
  readonly reasons: ReadonlySet<PushReason>;
}

/** The stream's side of a session: told to bring its proxy up to date. */
export interface PushSink {
  /**
   * Sends what `session.content()` now holds and the proxy lacks. Answers when the push slot is free again, with what
   * happened: at once when nothing large is left to drain to the socket, else when it has. Never throws or rejects.
   */
  push(pending: PendingPush): PushOutcome | Promise<PushOutcome>;
}

/**
 * `sent`: bytes went out; `nothing`: the proxy has it all; `deferred`: an un-ACKed response stands, the stream asks
 * again after it; `closed`.
 */
export type PushOutcome = 'sent' | 'nothing' | 'deferred' | 'closed';

/** A view that cannot be generated; times in ms. */
export interface FailingView {
  readonly view: string;
  /** Attempts in a row that have failed. */
  readonly failures: number;
  readonly error: string;
  /** Since the first of them. */
  readonly failingForMs: number;
  /** Until the next attempt; 0: it is under way, or nobody needs the view now. */
  readonly retryInMs: number;
}

/** A proxy known to the engine, for as long as its stream lives. */
export interface ProxySession {
  readonly node: ProxyNode;
  /** Unique per connection: `<node id>-<counter>`. */
  readonly connectionId: string;
  /**
   * Resolves when every part has the first bundles of the types that were asked for (the first generation of a view is
   * shared by all its proxies). Rejects with CtlError when it cannot be built at all.
   */
  readonly ready: Promise<void>;
  /** All parts, now; read at each send. The same object for as long as nothing has changed. */
  content(): Parts;
  /** Parts of the type, now. */
  parts(type: XdsType): readonly Bundle[];
  /** Snapshot version that the parts stand at. */
  version(): number;
  /**
   * Has what is needed to answer requests of a type generated. Undefined when it is there; else resolves when it is,
   * and rejects with CtlError when it cannot be had.
   */
  need(type: XdsType): Promise<void> | undefined;
  /**
   * Asks for a push slot (the stream has something to send outside a publication: new subscription, after an ACK).
   * Merged in the queue.
   */
  request(types: Iterable<XdsType>): void;
  /** Everything required at `version` is acknowledged: convergence is observed here. */
  synced(version: number): void;
  close(): void;
}

/** The engine, seen from streams. */
export interface PushEngine {
  /**
   * Registers a proxy. Throws CtlError `invalid_argument` when the node cannot be served, `resource_exhausted` when
   * overloaded.
   * @param caller whose proxy it is, as far as that is known: callers are served in turns
   * @param types that it asks for to begin with: no others are generated for it before it needs them
   */
  connect(node: ProxyNode, sink: PushSink, caller: string, types?: readonly XdsType[]): ProxySession;
}

/** State of one type on one stream, for /debug/syncz, /debug/adsz and metrics. */
export interface TypeStatus {
  readonly subscribed: 'wildcard' | number | 'none';
  readonly nonceSent: string;
  readonly nonceAcked: string;
  /** It came with what it should have (a reconnect), so that nothing had to be sent yet. */
  readonly cameCurrent: boolean;
  readonly nonceNacked: string;
  /** Snapshot version of the last response sent, and of the last acknowledged. */
  readonly versionSent: number;
  readonly versionAcked: number;
  /**
   * Snapshot version of the last response that was acknowledged with nothing of it, or of what was sent before, kept
   * back; 0: none.
   */
  readonly versionHeld: number;
  /** The proxy is known to have exactly what it should have: nothing is under way, waits, or is kept back. */
  readonly current: boolean;
  readonly lastNack:
    | { readonly message: string; readonly atMs: number; readonly resources: readonly string[] }
    | undefined;
  /** Resource name → rejected version, kept back from this proxy. */
  readonly quarantined: ReadonlyMap<string, string>;
  readonly sentMessages: number;
  readonly sentBytes: number;
}

/** A live stream, for the debug interface. */
export interface ConnectionStatus {
  readonly connectionId: string;
  readonly node: ProxyNode;
  readonly peer: string;
  readonly mode: 'sotw' | 'delta';
  readonly connectedAtMs: number;
  readonly types: ReadonlyMap<XdsType, TypeStatus>;
}
