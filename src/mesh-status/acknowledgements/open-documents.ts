/**
 * The documents of which the proxies of this replica are examined: those whose status does not say yet that all proxies
 * have acknowledged them, and those from which a resource was generated that a proxy rejects.
 *
 * All proxies that have acknowledged a snapshot with a version of a document have acknowledged that version. For the
 * others, soon after a change, it is only counted that they lack something. If that lasts, the resources that they have
 * not accepted tell which documents they lack.
 */
import type { Clock } from '../../core/clock.ts';
import { scrubText } from '../../core/scrub.ts';
import { type NextVisit, Rounds } from '../../object-status/index.ts';
import type { ResourceKey } from '../../resources/index.ts';
import { type DocumentState, type DocumentVersion, isSameState, MAX_MESSAGE } from './document-state.ts';
import type { FollowedProxies, FollowedProxy, RejectedResource } from './followed-proxies.ts';

/** A document in force. */
export interface DocumentInForce extends DocumentVersion {
  /** The version of the first snapshot with this content; Infinity while it is not published. */
  readonly since: number;
}

/** A rejection of a resource. */
export interface Rejection extends RejectedResource {
  readonly proxy: string;
  /** Of the proxy. */
  readonly namespace: string;
}

export interface OpenDocumentsOptions {
  readonly clock: Clock;
  readonly version: () => number;
  readonly rootNamespace: () => string;
  readonly proxies: FollowedProxies;
  /** The document in force, if it is one of the cluster. */
  readonly inForce: (key: ResourceKey) => DocumentInForce | undefined;
  /** The connections of the proxies for whose configuration the document was read. */
  readonly readersOf: (key: ResourceKey) => ReadonlySet<string>;
  /** Rejections because of which a resource is withheld from other proxies, by document. */
  readonly withheld: () => ReadonlyMap<ResourceKey, Rejection>;
  /** The states of these documents have changed. */
  onChanged(keys: readonly ResourceKey[]): void;
}

interface OpenDocument {
  readonly key: ResourceKey;
  readonly namespace: string;
  /** The generation of the object whose status does not say that everybody has acknowledged it; 0: it is settled. */
  unsettled: number;
  /** A proxy has rejected something of it. */
  isRejected: boolean;
  readonly openedAt: number;
  /** When this version was first examined. */
  firstAt: number;
  since: number;
  /** Proxies that lack other changes, and have accepted this one. */
  accepted: WeakSet<FollowedProxy>;
  readers: Readers | undefined;
  state: DocumentState | undefined;
}

/** The connections that read a document. */
interface Readers {
  readonly at: number;
  readonly version: number;
  readonly connections: ReadonlySet<string>;
}

/** A proxy that has rejected something. */
interface Rejecting {
  readonly namespace: string;
  readonly proxy: FollowedProxy;
}

/** Interval at which proxies are examined, ms. */
const LOOK_MS = 250;
/** Time that proxies have for a change before it is found out which documents they lack, ms. */
const PATIENCE_MS = 1_000;
/** Time for which a document is waited for that the API server has and the store has not, ms: it may be refused. */
const WAIT_MS = 10_000;
/** The number of proxies that are explained in one visit. */
const MAX_EXPLAINED = 8;
/** Time after which no further proxy is explained in one visit, ms. */
const EXPLAIN_MS = 5;
/** Characters of a proxy's message in which credentials are looked for: enough for what is shown. */
const MAX_SCRUBBED = 8 * MAX_MESSAGE;
/** How long it is believed which connections read a document of a snapshot, ms: proxies connect, and request more. */
const READERS_MS = 1_000;

export class OpenDocuments {
  readonly #options: OpenDocumentsOptions;
  readonly #documents = new Map<ResourceKey, OpenDocument>();
  readonly #rejecting = new Map<FollowedProxy, Rejecting>();
  readonly #rounds: Rounds<OpenDocument | Rejecting>;
  readonly #changed = new Set<ResourceKey>();
  #withheld: ReadonlyMap<ResourceKey, Rejection> | undefined;

  constructor(options: OpenDocumentsOptions) {
    this.#options = options;
    const { clock, version } = options;
    const visit = (item: OpenDocument | Rejecting): NextVisit =>
      'proxy' in item ? this.#visitProxy(item) : this.#visit(item);
    this.#rounds = new Rounds({ clock, version, intervalMs: LOOK_MS, visit, onSlice: () => this.#tellChanged() });
  }

  /**
   * The document, or its status, has changed.
   * @param unsettled the generation of the object, unless its status says that everybody has acknowledged that; else 0
   */
  changed(key: ResourceKey, unsettled: number): void {
    const document = this.#documents.get(key) ?? (unsettled > 0 ? this.#open(key) : undefined);
    if (document === undefined) return;
    document.unsettled = unsettled;
    if (unsettled > 0 || document.isRejected) this.#rounds.add(document);
    else this.#close(document);
  }

  /** The proxy has rejected something. */
  rejected(proxy: FollowedProxy): void {
    proxy.outdated();
    const { namespace } = proxy;
    const item = this.#rejecting.get(proxy) ?? { namespace, proxy };
    this.#rejecting.set(proxy, item);
    this.#rounds.add(item);
  }

  disconnected(proxy: FollowedProxy): void {
    const item = this.#rejecting.get(proxy);
    if (item !== undefined) this.#rounds.remove(item);
    this.#rejecting.delete(proxy);
  }

  /** The state of a document; undefined if it is settled or has not been examined. */
  of(key: ResourceKey): DocumentState | undefined {
    return this.#documents.get(key)?.state;
  }

  states(): ReadonlyMap<ResourceKey, DocumentState> {
    const found = [...this.#documents.values()].flatMap(({ key, state }) =>
      state === undefined ? [] : [[key, state] as const],
    );
    return new Map(found);
  }

  close(): void {
    this.#rounds.close();
  }

  #open(key: ResourceKey): OpenDocument {
    const [, namespace = ''] = key.split('/');
    const document = {
      key,
      namespace,
      unsettled: 0,
      isRejected: false,
      openedAt: this.#options.clock.now(),
      firstAt: this.#options.clock.now(),
      since: Number.NaN,
      accepted: new WeakSet<FollowedProxy>(),
      readers: undefined,
      state: undefined,
    };
    this.#documents.set(key, document);
    return document;
  }

  #close(document: OpenDocument): void {
    this.#documents.delete(document.key);
    this.#rounds.remove(document);
    if (document.state !== undefined) this.#changed.add(document.key);
  }

  /** Opens the documents of which the proxy rejects something. */
  #visitProxy({ proxy }: Rejecting): NextVisit {
    const { rejected, outstanding, isCut, isContinued } = proxy.unaccepted();
    for (const key of rejected.keys()) {
      const since = this.#options.inForce(key)?.since;
      if (since === undefined || since <= proxy.acknowledged) continue;
      const document = this.#documents.get(key) ?? this.#open(key);
      document.isRejected = true;
      this.#rounds.add(document);
    }
    // Which of several resources it rejects, and of which documents these are, may still be being found out.
    if (outstanding.size > 0 || isContinued) return 'next-round';
    if (rejected.size > 0 || isCut) return 'new-version';
    this.#rejecting.delete(proxy);
    return 'none';
  }

  #visit(document: OpenDocument): NextVisit {
    const { clock, inForce } = this.#options;
    const found = inForce(document.key);
    if (found === undefined && document.unsettled === 0) {
      // It was deleted.
      this.#close(document);
      return 'none';
    }
    if (found === undefined || !isPublished(found, document.unsettled))
      return clock.now() - document.openedAt < WAIT_MS ? 'next-round' : 'new-version';
    if (found.since !== document.since) {
      document.since = found.since;
      document.firstAt = clock.now();
      document.accepted = new WeakSet();
    }
    const { uid, generation } = found;
    const isPatient = clock.now() - document.firstAt < PATIENCE_MS;
    const counts = isPatient ? this.#lacking(document) : this.#explained(document);
    const state = { uid, generation, ...counts };
    document.isRejected = state.rejected > 0;
    if (!isSameState(state, document.state)) this.#changed.add(document.key);
    document.state = state;
    if (state.pending + state.rejected > 0) return 'next-round';
    if (document.unsettled === 0) this.#close(document);
    return 'none';
  }

  #lacking({ since }: OpenDocument): Pick<DocumentState, 'pending' | 'rejected' | 'message'> {
    return { pending: this.#options.proxies.behind(since).length, rejected: 0, message: '' };
  }

  #explained(document: OpenDocument): Pick<DocumentState, 'pending' | 'rejected' | 'message'> {
    const { key, namespace, since, accepted } = document;
    const { clock, proxies } = this.#options;
    const endsAt = clock.now() + EXPLAIN_MS;
    let [pending, rejected, message, explained] = [0, 0, '', 0];
    const refused = (rejection: Rejection): void => {
      rejected++;
      if (message === '') message = this.#shown(rejection, namespace);
    };
    for (const proxy of proxies.behind(since)) {
      if (accepted.has(proxy)) continue;
      const isKnown = proxy.isExplained || (clock.now() < endsAt && explained++ < MAX_EXPLAINED);
      const found = isKnown ? proxy.unaccepted() : proxy.lastUnaccepted;
      const said = found?.rejected.get(key);
      if (said !== undefined) refused({ proxy: proxy.name, namespace: proxy.namespace, ...said });
      // What was found before it was sent the change does not tell whether it has accepted it.
      else if (!isKnown || found === undefined || found.sent < since) pending++;
      else if (found.outstanding.has(key)) pending++;
      else if (!found.isCut) accepted.add(proxy);
      else if (this.#isRead(document, proxy)) pending++;
    }
    this.#withheld ??= this.#options.withheld();
    const withheld = rejected > 0 ? undefined : this.#withheld.get(key);
    if (withheld !== undefined) refused(withheld);
    return { pending, rejected, message };
  }

  /** Whether a document was read for the configuration of a proxy. */
  #isRead(document: OpenDocument, { connectionId }: FollowedProxy): boolean {
    const { clock, readersOf } = this.#options;
    const [now, version] = [clock.now(), this.#options.version()];
    const { readers } = document;
    const isBelieved = readers?.version === version && now - readers.at < READERS_MS;
    const current = isBelieved ? readers : { at: now, version, connections: readersOf(document.key) };
    document.readers = current;
    return current.connections.has(connectionId);
  }

  /**
   * Who may read a document of one namespace does not learn what proxies of others are, or say. What a proxy says about
   * a resource may quote each document from which it was generated.
   */
  #shown({ proxy, namespace, namespaces, message }: Rejection, ofDocument: string): string {
    const isOfRoot = ofDocument === this.#options.rootNamespace();
    if (!isOfRoot && namespace !== ofDocument) return 'a proxy of another namespace rejects it';
    if (!isOfRoot && ![...namespaces].every((each) => each === ofDocument)) return 'a proxy rejects it';
    const said = scrubText(message.slice(0, MAX_SCRUBBED)).replace(/\s+/g, ' ');
    return `${proxy} rejects it: ${said}`.slice(0, MAX_MESSAGE).toWellFormed();
  }

  #tellChanged(): void {
    this.#withheld = undefined;
    const changed = [...this.#changed];
    this.#changed.clear();
    if (changed.length > 0) this.#options.onChanged(changed);
  }
}

/** Whether proxies can have this generation. */
function isPublished({ generation, since }: DocumentInForce, wanted: number): boolean {
  return generation >= wanted && Number.isFinite(since);
}
