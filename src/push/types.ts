/**
 * The engine's interface to streams: interned encoded resources in immutable bundles, and sessions that hold the
 * bundles a proxy should have. *What to serve* is defined here; *how to talk* in `xds/`.
 */
import type { ProxyNode } from '../core/proxy.ts';
import type { XdsType } from '../core/xds-types.ts';
import type { OnDemand } from '../generate/index.ts';
import type { DemandStatus } from './demand-status.ts';
import type { Push } from './push.ts';

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

/** The difference between two bundles, which has to be sent. Computed once per pair, and shared. */
export interface BundleDiff {
  readonly changed: readonly EncodedResource[];
  readonly removed: readonly string[];
}

/** An immutable set of resources of one type and one view: the content of one part. */
export interface Bundle {
  /** No other bundle has it: two can be compared without keeping both in memory. */
  readonly id: number;
  /** Refers to the bundle without keeping it in memory: one object. */
  readonly ref: WeakRef<Bundle>;
  readonly type: XdsType;
  /** The view that it belongs to. */
  readonly viewKey: string;
  /** Grows with each new bundle of the view. */
  readonly sequence: number;
  readonly size: number;
  get(name: string): EncodedResource | undefined;
  /** In code-unit order of names. */
  resources(): readonly EncodedResource[];
  /**
   * The difference from `previous` (undefined: from an empty bundle). Cached; cheap if the two share most of their
   * content.
   */
  diffFrom(previous: Bundle | undefined): BundleDiff;
  /** All SotW fields (`0x12 len Any`…) joined, made once on first use. */
  sotwBody(): readonly Uint8Array[];
}

/** Names of which equal sets are one object. */
export interface Names {
  readonly names: Iterable<string>;
}

/**
 * The names of what proxies hold (see {@link ProxySession.hold}) that a change of a bundle concerns, and patterns of
 * such names (`views/name-patterns.ts`); undefined: it concerns all proxies of the view.
 */
export type ConcernedNames = (type: XdsType, before: Bundle, now: Bundle) => readonly string[] | undefined;

/** Where resources lead proxies. */
export interface LeadsTo {
  /** The names of the clusters that a resource leads to. */
  clusters(resource: EncodedResource): ReadonlySet<string>;
  /** Whether a virtual host is for hosts that have none of their own. */
  hasWildcards(host: EncodedResource): boolean;
  /** Whether a virtual host has domains that it did not have before: another one may have had them. */
  hasMoreDomains(host: EncodedResource, before: EncodedResource): boolean;
}

/** All parts of a proxy at one moment, by type; a new object whenever one of them is replaced. */
export type Parts = Readonly<Record<XdsType, readonly Bundle[]>>;

/**
 * What a proxy did with a resource that it should have. `unrequested`: it does not subscribe to it. A rejection that is
 * not `certain` is of several resources, and which of them the proxy rejects is being found out.
 */
export type ResourceAnswer =
  | 'accepted'
  | 'outstanding'
  | 'unrequested'
  | { readonly rejected: string; readonly certain: boolean };

/** The stream's side of a session, which sends pushes. */
export interface PushSink {
  /** What the proxy did with the resource of this name in `session.content()`. Absent: it is no canary. */
  answerOf?(type: XdsType, name: string): ResourceAnswer;
  /**
   * Sends the resources of `session.content()` that the proxy does not have. The outcome frees the push slot: it is
   * returned at once when no large write is pending, otherwise when the bytes have drained to the socket. Never throws
   * or rejects.
   */
  push(push: Push): PushOutcome | Promise<PushOutcome>;
}

/**
 * `sent`: a response was written; `nothing`: the proxy has everything; `deferred`: an earlier response is not
 * acknowledged, and the stream requests another push after that; `closed`: the stream has ended.
 */
export type PushOutcome = 'sent' | 'nothing' | 'deferred' | 'closed';

/** A view that cannot be generated; times in ms. */
export interface FailingView {
  readonly view: string;
  /** Consecutive failed attempts. */
  readonly failures: number;
  readonly error: string;
  /** Since the first of them. */
  readonly failingForMs: number;
  /** Time until the next attempt; 0 if it is running, or no proxy needs the view. */
  readonly retryInMs: number;
}

/**
 * How a trial of changed resources ended; `released`: they were neither accepted nor rejected by enough callers in
 * time.
 */
export type TrialResult = 'accepted' | 'refused' | 'released';

/** A resource that is withheld from the proxies of a view, because a canary rejected it. */
export interface WithheldResource {
  readonly type: XdsType;
  readonly name: string;
  /** Of the placements of the view. */
  readonly versions: ReadonlySet<string>;
  /** The version that is in force instead; undefined: none was accepted before. */
  readonly acceptedVersion: string | undefined;
  /** The connection that rejected it first. */
  readonly proxy: string;
  /** In Envoy's words; for a resource that is withheld with another one, which that is. */
  readonly message: string;
  /** Wall clock, ms. */
  readonly sinceMs: number;
}

/** The same with its view, for the debug interface. */
export interface WithheldOfView extends WithheldResource {
  readonly view: string;
  /** Of the proxies of the view. */
  readonly namespace: string;
  /** The documents that it was generated from: `Kind/namespace/name`. */
  readonly documents: readonly string[];
}

/** The clusters of a view that are not generated yet. */
export interface LaterClusters {
  /** Whether a cluster of this name may be among them. */
  has(cluster: string): boolean;
  /** Generates these. */
  want(clusters: Iterable<string>): void;
  /**
   * The same; resolves when they are generated, or do not exist any more. Rejects when the job fails: the next attempt
   * may be minutes away. Undefined if nothing is to be generated.
   * @param clusters names; undefined: all
   * @param by the session that needs them, and does not wait any more when it has left the view
   */
  need(clusters: Iterable<string> | undefined, by?: object): Promise<void> | undefined;
}

/**
 * The virtual hosts of a view that are generated when proxies need them: for names `<route configuration>/<host>`,
 * where the host is what a request names, or the name of a virtual host.
 */
export interface LaterHosts {
  /** Whether it is not known which virtual host is for this name. */
  has(name: string): boolean;
  /** Generates the virtual hosts for these. */
  want(names: Iterable<string>): void;
  /**
   * The same; resolves when they are generated, and rejects when they cannot be. Undefined if nothing is to be
   * generated.
   * @param names undefined: all virtual hosts
   * @param by the session that needs them, until it holds the names
   */
  need(names: Iterable<string> | undefined, by: object): Promise<void> | undefined;
  /** How many virtual hosts there are in all, at most. */
  readonly total: number;
}

/** A connected proxy, for as long as its stream lives. */
export interface ProxySession {
  readonly node: ProxyNode;
  /** Unique per connection: `<node id>-<counter>`. */
  readonly connectionId: string;
  /**
   * Resolves when every part has the first bundles of the requested types. Rejects with CtlError when they cannot be
   * generated.
   */
  readonly ready: Promise<void>;
  /** The current parts, read at each send; the same object for as long as nothing changes. */
  content(): Parts;
  /** The current parts of a type. */
  parts(type: XdsType): readonly Bundle[];
  /** Set if the proxy asks for the virtual hosts that it uses. */
  readonly onDemand: OnDemand | undefined;
  /** Hosts that it gets without asking. */
  readonly namedHosts: readonly string[];
  /**
   * What its proxy holds of the parts, if not everything: names of resources, and others by which `ConcernedNames`
   * tells which changes concern it. Changes that concern no name of these do not cause a push. Undefined: everything.
   */
  hold(names: readonly Names[] | undefined): void;
  /** Clusters that its parts lack for the moment, of which a proxy on demand may ask for some; mostly undefined. */
  readonly laterClusters: LaterClusters | undefined;
  /** The same of virtual hosts. */
  readonly laterHosts: LaterHosts | undefined;
  /** Snapshot version of the parts. */
  version(): number;
  /** The version up to which the parts are complete: without units that could not be generated. */
  completeVersion(): number;
  /**
   * Generates what is needed to respond to requests of a type. Undefined if it exists already; otherwise resolves when
   * it is generated, and rejects with CtlError if it cannot be generated.
   */
  need(type: XdsType): Promise<void> | undefined;
  /** Asks for a push slot outside a publication, for a new subscription or after an ACK. Merged with a pending push. */
  request(types: Iterable<XdsType>): void;
  /** Whether a part of the pending changes, or of the configuration that a new proxy requests, was sent. */
  readonly begun: boolean;
  /** The proxy has acknowledged everything that it needs of `version`: ends the measurement of convergence. */
  synced(version: number): void;
  /** The proxy has acknowledged or rejected a response. */
  answered(): void;
  close(): void;
}

/** The engine, seen from streams. */
export interface PushEngine {
  /**
   * Registers a proxy. Throws CtlError `invalid_argument` when the node cannot be served, `resource_exhausted` when
   * overloaded.
   * @param caller the caller that the proxy belongs to; callers share the time of generation @param types the types
   * that the proxy requests first: others are only generated when it requests them
   */
  connect(node: ProxyNode, sink: PushSink, caller: string, types?: readonly XdsType[]): ProxySession;
}

/** State of one type on one stream, for /debug/syncz, /debug/adsz and metrics. */
export interface TypeStatus {
  readonly subscribed: 'wildcard' | number | 'none';
  readonly nonceSent: string;
  readonly nonceAcked: string;
  /** The proxy reconnected with the current versions, so no response was necessary. */
  readonly resumedUpToDate: boolean;
  readonly nonceNacked: string;
  /** Snapshot version of the last response sent, and of the last acknowledged. */
  readonly versionSent: number;
  readonly versionAcked: number;
  /**
   * Snapshot version of the last acknowledged response after which the proxy had everything: no resource of it, or of
   * earlier ones, was quarantined; 0: none.
   */
  readonly versionComplete: number;
  /** The proxy has exactly what it should have: nothing is in flight, pending or quarantined. */
  readonly current: boolean;
  readonly lastNack:
    | { readonly message: string; readonly atMs: number; readonly resources: readonly string[] }
    | undefined;
  /** Resource name → the version that this proxy rejected, which is not sent to it again. */
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
  /** Absent for a proxy that gets everything without having to ask. */
  readonly onDemand?: DemandStatus;
  readonly types: ReadonlyMap<XdsType, TypeStatus>;
}
